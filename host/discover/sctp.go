package discover

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// sctpTable lists the SCTP sockets of this network namespace. The file exists if the kernel has
// loaded SCTP. A query with sock_diag(7) or a new socket would load SCTP; a read of the file
// does not.
const sctpTable = "proc/net/sctp/eps"

// sctpSockets lists the listening SCTP sockets. loaded is false if the kernel does not support
// SCTP, or if no process has used SCTP yet. In both cases, no process listens.
func (m sockets) sctpSockets() (out []socket, loaded bool, err error) {
	data, err := m.read(maxProcFile, sctpTable)
	if os.IsNotExist(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		// ENDPT SOCK STY SST HBKT LPORT UID INODE LADDRS
		if n++; n == 1 {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 9 || f[3] != strconv.Itoa(stateListen) {
			continue
		}
		port, err := strconv.ParseUint(f[5], 10, 16)
		if err != nil {
			return nil, true, fmt.Errorf("/%s: %q: %w", sctpTable, strings.TrimSpace(line), err)
		}
		inode, err := strconv.ParseUint(f[7], 10, 32)
		if err != nil {
			return nil, true, fmt.Errorf("/%s: %q: %w", sctpTable, strings.TrimSpace(line), err)
		}
		// A socket that is bound to several addresses listens on each of them.
		for _, address := range f[8:] {
			ip := net.ParseIP(strings.TrimPrefix(address, "*"))
			if ip == nil {
				return nil, true, fmt.Errorf("/%s: %q is not an address", sctpTable, address)
			}
			out = append(out, socket{inode: uint32(inode), Listener: host.Listener{
				Protocol: corev1.ProtocolSCTP, IP: ip.String(), Port: int32(port),
			}})
		}
	}
	return out, true, nil
}
