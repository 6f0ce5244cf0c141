package discover

import (
	"strconv"
	"strings"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/rootless"
)

// readUser returns the user who runs podrun, or nil if this is root. podrun-rootless need not run yet: the numbers of
// IDs are then unknown (0).
func (m machine) readUser() *host.User {
	if m.root != "/" || !rootless.User() {
		return nil
	}
	u := &host.User{Name: rootless.UserName(), FirstPort: 1024}
	data, err := m.read(maxProcFile, "proc/sys/net/ipv4/ip_unprivileged_port_start")
	if port, perr := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 32); err == nil && perr == nil {
		u.FirstPort = int32(port)
	}
	if r := rootless.ReadRecord(); r != nil {
		u.UIDs, u.GIDs, u.Resolvers = mappedIDs(r.UIDMap), mappedIDs(r.GIDMap), r.Resolvers
	}
	return u
}

// mappedIDs returns the number of IDs, beginning at 0, that a map of a user namespace (user_namespaces(7)) has without
// a gap. The lines are sorted, as podrun-rootless writes them.
func mappedIDs(text string) int64 {
	var end int64
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			break
		}
		first, err := strconv.ParseInt(f[0], 10, 64)
		count, cerr := strconv.ParseInt(f[2], 10, 64)
		if err != nil || cerr != nil || first != end {
			break
		}
		end += count
	}
	return end
}

// withoutForwarder drops the sockets of podrun-rootless, which listens on the host ports of pods: admission compares
// the pods themselves.
func withoutForwarder(sockets []socket) []socket {
	r := rootless.Inside()
	if r == nil {
		return sockets
	}
	var out []socket
	for _, s := range sockets {
		if s.PID != r.PID {
			out = append(out, s)
		}
	}
	return out
}
