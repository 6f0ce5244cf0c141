package embedded

import (
	"net"
	"net/netip"
	"strconv"
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

// capSysResource is the bit of CAP_SYS_RESOURCE.
const capSysResource = 24

// lowersOOM reports whether a process with this /proc/self/status may lower OOM scores. The
// kernel requires the capability in the initial user namespace. A process in another user
// namespace never has it there.
func lowersOOM(status string) bool {
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && set&(1<<capSysResource) != 0
		}
	}
	return false
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
