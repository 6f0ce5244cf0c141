package embedded

import (
	"net"
	"net/netip"
	"path"
	"strings"
)

// rootfsIn reports whether /proc/self/mountinfo has a root mount of type rootfs over which
// nothing else is mounted.
func rootfsIn(mountinfo string) bool {
	is := false
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) > 4 && fields[4] == "/" && len(kind) > 0 {
			is = kind[0] == "rootfs"
		}
	}
	return is
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones).Masked(), ok
}

// lastLines returns the last n lines of a text. If n is negative, it returns all lines.
func lastLines(text string, n int) string {
	if n < 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

// archiveOf reports whether a path is that of a program that was unpacked below a directory, and
// returns the digest of the archive. The kernel follows the renames of a running program's
// directories, also after their removal, and then appends a suffix to the path: a repair leaves
// the program below a temporary directory, and the nested repairs of older versions left it below
// any number of directories. The digest is "" if none of these names contains it. It is pure.
func archiveOf(dir, exe string) (digest string, ok bool) {
	rest, below := strings.CutPrefix(strings.TrimSuffix(exe, deletedSuffix), dir+"/")
	top, program, nested := strings.Cut(rest, "/")
	if !below || !nested || path.Base(path.Dir(program)) != "bin" {
		return "", false
	}
	name, temporary := strings.CutPrefix(top, unpackPrefix)
	if temporary {
		name, _, _ = strings.Cut(name, "-")
	}
	if IsDigest(name) {
		return name, true
	}
	return "", temporary
}

// deletedSuffix is what the kernel appends to the path of a removed program (proc_pid_exe(5)).
const deletedSuffix = " (deleted)"
