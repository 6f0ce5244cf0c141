package embedded

import (
	"net"
	"net/netip"
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

// digestIn returns the digest in the path of a program that was unpacked below a directory. For
// any other program, it returns "". If the program was removed, the kernel appends a suffix to
// the path.
func digestIn(dir, exe string) string {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(exe, " (deleted)"), dir+"/")
	digest, program, nested := strings.Cut(rest, "/")
	if !ok || !nested || !IsDigest(digest) || !strings.HasPrefix(program, "bin/") && !strings.HasPrefix(program, ".broken/bin/") {
		return ""
	}
	return digest
}
