package volume

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
)

// maxExportPath is Linux's NFS4_MAXPATHLEN, in bytes.
const maxExportPath = 1024

var (
	// hostName matches the name of an NFS server: labels of at most 63 letters, digits, '-' and '_'.
	hostName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$`)
	})
	// zoneName matches the zone of an IPv6 address: the name or the number of a network interface.
	zoneName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,14}$`) })
)

// maxHostName is the maximum length of a DNS name, with a trailing dot.
const maxHostName = 254

// problem explains why podrun does not mount an export. It returns "" if the server, the path and the options have the
// forms that mount(8) must get. The API validates only that the server is not empty and that the path is absolute. The
// server becomes the beginning of an argument: with the server "-T/file", mount(8) would read its mounts from the file.
func (n *NFS) problem() string {
	switch {
	case !isServer(n.Server):
		return fmt.Sprintf("the server %q is not a host name or an IP address", n.Server)
	case !strings.HasPrefix(n.Path, "/"):
		return fmt.Sprintf("the path %q is not absolute", n.Path)
	case len(n.Path) > maxExportPath:
		return fmt.Sprintf("the path has %d bytes, more than the limit of %d", len(n.Path), maxExportPath)
	case strings.ContainsFunc(n.Path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Sprintf("the path %q contains control characters", n.Path)
	}
	return n.optionProblem()
}

// isServer reports whether a text is a host name or an IP address. An IPv6 address may be in brackets and may have a
// zone.
func isServer(text string) bool {
	if hostName().MatchString(text) && len(text) <= maxHostName {
		return true
	}
	inner, bracketed := strings.CutPrefix(text, "[")
	if bracketed {
		var closed bool
		if inner, closed = strings.CutSuffix(inner, "]"); !closed {
			return false
		}
	}
	addr, err := netip.ParseAddr(inner)
	return err == nil && addr.Is6() && (addr.Zone() == "" || zoneName().MatchString(addr.Zone()))
}

// source returns the export in the notation of mount.nfs. An IPv6 address is in brackets.
func (n *NFS) source() string {
	if strings.Contains(n.Server, ":") && !strings.HasPrefix(n.Server, "[") {
		return "[" + n.Server + "]:" + n.Path
	}
	return n.Server + ":" + n.Path
}
