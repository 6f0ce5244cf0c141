package discover

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/podrun/podrun/host"
)

// procSockets reads the sockets from the files in /proc/net, for kernels without sock_diag. These files do not show
// whether a wildcard socket of IPv6 also occupies the IPv4 port. procSockets assumes that every such socket does.
func (m sockets) procSockets() ([]socket, error) {
	var out []socket
	for _, kind := range socketKinds {
		data, err := m.read(maxProcFile, "proc/net", kind.table)
		if os.IsNotExist(err) {
			// The kernel does not support IPv6.
			continue
		}
		if err != nil {
			return nil, err
		}
		n := 0
		for line := range strings.Lines(string(data)) {
			if n++; n == 1 {
				continue
			}
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != fmt.Sprintf("%02X", kind.state) {
				continue
			}
			s, err := parseProcSocket(f[1], f[9])
			if err != nil {
				return nil, fmt.Errorf("/proc/net/%s: %q: %w", kind.table, strings.TrimSpace(line), err)
			}
			s.Protocol = kind.name
			if s.Port != 0 {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// parseProcSocket parses 0100007F:1F90. The address consists of 32-bit words in the host's byte
// order, and the port is in network byte order.
func parseProcSocket(local, inode string) (socket, error) {
	var s socket
	addr, port, _ := strings.Cut(local, ":")
	raw, err := hex.DecodeString(addr)
	if err != nil || len(raw) != net.IPv4len && len(raw) != net.IPv6len {
		return s, fmt.Errorf("%q is not an address", addr)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return s, err
	}
	i, err := strconv.ParseUint(inode, 10, 32)
	if err != nil {
		return s, err
	}
	s.IP, s.Port, s.inode = net.IP(raw).String(), int32(p), uint32(i)
	return s, nil
}

// nameOwners sets PID and Process of the sockets that have wanted ports. It walks /proc only if
// there is such a socket. A socket has no process name if procSockets cannot find its owner.
// The owner may be in another PID namespace or may have exited. Its port is occupied
// nevertheless.
func (m sockets) nameOwners(sockets []socket, wanted []host.HostPort) {
	// maps the text of a link to the indexes of the sockets
	pending := map[string][]int{}
	for i, s := range sockets {
		taken := func(w host.HostPort) bool { return w.Port == s.Port && w.Protocol == s.Protocol }
		if slices.ContainsFunc(wanted, taken) {
			link := fmt.Sprintf("socket:[%d]", s.inode)
			pending[link] = append(pending[link], i)
		}
	}
	if len(pending) == 0 {
		return
	}
	processes, err := os.ReadDir(m.path("proc"))
	if err != nil {
		return
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		for _, link := range m.descriptors(p.Name()) {
			for _, i := range pending[link] {
				sockets[i].PID, sockets[i].Process = pid, m.comm(p.Name())
			}
			delete(pending, link)
		}
		if len(pending) == 0 {
			return
		}
	}
}

// descriptors returns the link targets of a process's file descriptors.
func (m sockets) descriptors(pid string) []string {
	fds, err := os.ReadDir(m.path("proc", pid, "fd"))
	if err != nil {
		return nil
	}
	var out []string
	for _, fd := range fds {
		if link, err := os.Readlink(m.path("proc", pid, "fd", fd.Name())); err == nil {
			out = append(out, link)
		}
	}
	return out
}

func (m sockets) comm(pid string) string {
	data, err := m.read(maxProcFile, "proc", pid, "comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
