package discover

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// The kernel's states (include/net/tcp_states.h) of a listening TCP socket, and of a UDP socket
// that is bound and not connected.
const (
	stateListen = 10
	stateClose  = 7
)

// Sizes and offsets of inet_diag_req_v2 and inet_diag_msg
// (include/uapi/linux/inet_diag.h).
const (
	diagRequestLen = 56
	diagMessageLen = 72
	diagSKV6Only   = 11
)

// Listeners lists the TCP and UDP sockets of the host that occupy a port. It names the processes that occupy
// the wanted ports.
func Listeners(ctx context.Context, wanted []host.HostPort) ([]host.Listener, error) {
	out, _, err := sockets{machine{ctx: ctx, root: "/"}}.readListeners(wanted)
	return out, err
}

// readListeners lists the sockets that occupy a port. It names the processes that occupy the
// wanted ports. If an SCTP port is wanted, it also reads SCTP sockets, and reports whether the
// kernel has loaded SCTP. Otherwise the second result is nil.
func (m sockets) readListeners(wanted []host.HostPort) ([]host.Listener, *bool, error) {
	sockets, err := diagSockets()
	if err != nil {
		if sockets, err = m.procSockets(); err != nil {
			return nil, nil, factError("list the listening sockets", err, "")
		}
	}
	var sctp *bool
	if slices.ContainsFunc(wanted, func(p host.HostPort) bool { return p.Protocol == corev1.ProtocolSCTP }) {
		more, loaded, err := m.sctpSockets()
		if err != nil {
			return nil, nil, factError("list the listening SCTP sockets", err, "")
		}
		sockets, sctp = append(sockets, more...), &loaded
	}
	m.nameOwners(sockets, wanted)
	sockets = withoutForwarder(sockets)
	out := make([]host.Listener, len(sockets))
	for i, s := range sockets {
		out[i] = s.Listener
	}
	return out, sctp, nil
}

// socket is a listener with its inode. The inode leads to the listener's process in /proc/*/fd.
type socket struct {
	host.Listener
	inode uint32
}

// socketKind is a combination of family, protocol and state.
type socketKind struct {
	family, protocol uint8
	state            uint8
	name             corev1.Protocol
	table            string // file in /proc/net
}

var socketKinds = []socketKind{
	{unix.AF_INET, unix.IPPROTO_TCP, stateListen, corev1.ProtocolTCP, "tcp"},
	{unix.AF_INET6, unix.IPPROTO_TCP, stateListen, corev1.ProtocolTCP, "tcp6"},
	{unix.AF_INET, unix.IPPROTO_UDP, stateClose, corev1.ProtocolUDP, "udp"},
	{unix.AF_INET6, unix.IPPROTO_UDP, stateClose, corev1.ProtocolUDP, "udp6"},
}

// diagSockets queries the kernel with sock_diag(7). This filters by state, so it is as fast on a
// host with a hundred thousand connections as on an idle host.
func diagSockets() ([]socket, error) {
	var out []socket
	for _, kind := range socketKinds {
		req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		req.AddData(diagRequest(kind))
		msgs, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil {
			return nil, fmt.Errorf("sock_diag %s: %w", kind.table, err)
		}
		for _, msg := range msgs {
			if s, ok := parseDiag(msg, kind.name); ok {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// diagRequest is an inet_diag_req_v2.
type diagRequest socketKind

func (r diagRequest) Len() int { return diagRequestLen }

func (r diagRequest) Serialize() []byte {
	b := make([]byte, diagRequestLen)
	b[0], b[1] = r.family, r.protocol
	binary.NativeEndian.PutUint32(b[4:], 1<<r.state)
	return b
}

// parseDiag parses an inet_diag_msg and its attributes.
func parseDiag(msg []byte, protocol corev1.Protocol) (socket, bool) {
	if len(msg) < diagMessageLen {
		return socket{}, false
	}
	ip := net.IP(msg[8:12])
	if msg[0] == unix.AF_INET6 {
		ip = net.IP(msg[8:24])
	}
	s := socket{inode: binary.NativeEndian.Uint32(msg[68:])}
	s.Protocol, s.IP = protocol, ip.String()
	s.Port = int32(binary.BigEndian.Uint16(msg[4:]))
	attrs, err := nl.ParseRouteAttr(msg[diagMessageLen:])
	if err != nil {
		return socket{}, false
	}
	s.V6Only = msg[0] == unix.AF_INET6 && ip.IsUnspecified() && slices.ContainsFunc(attrs, func(a syscall.NetlinkRouteAttr) bool {
		return a.Attr.Type == diagSKV6Only && len(a.Value) > 0 && a.Value[0] == 1
	})
	return s, s.Port != 0
}
