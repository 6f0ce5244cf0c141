package embedded

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// rootfsIn finds a root mount of type rootfs in /proc/self/mountinfo that nothing is
// mounted over.
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

// lowersOOM finds in /proc/self/status whether a process may lower OOM scores. Inside a
// user namespace the kernel asks for the capability in the first one, which no
// process there has.
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
	addr, ok := netip.AddrFromSlice(n.IP.To4())
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr, ones).Masked(), ok
}

// lastLines are the last n lines of a text; all if n is negative.
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

// digestIn is the digest in the path of a program that was unpacked below a directory;
// empty for any other. The kernel marks one that was removed since.
func digestIn(dir, exe string) string {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(exe, " (deleted)"), dir+"/")
	digest, program, nested := strings.Cut(rest, "/")
	if !ok || !nested || !IsDigest(digest) || !strings.HasPrefix(program, "bin/") && !strings.HasPrefix(program, ".broken/bin/") {
		return ""
	}
	return digest
}
