package imagepull

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri"
)

// The sizes of inet_diag's structures and the offsets of the fields used
// (linux/inet_diag.h, linux/tcp.h), in bytes.
const (
	diagRequestLen  = 56 // struct inet_diag_req_v2
	diagMessageLen  = 72 // struct inet_diag_msg
	diagMessageNode = 68 // its inode
	diagInfo        = 2  // INET_DIAG_INFO
	infoLastData    = 52 // tcpi_last_data_recv of struct tcp_info, in ms
)

// States of a TCP socket (net/tcp_states.h).
const (
	tcpEstablished = 1
	tcpListen      = 10
)

// maxSockets bounds the file descriptors of a process that are looked at.
const maxSockets = 100_000

// connection is a TCP socket.
type connection struct {
	inode  uint32
	port   uint16 // its own
	listen bool
	quiet  time.Duration // since data came last, or since it was connected
}

// wireQuiet returns for how long a process has received nothing on the TCP connections
// that it opened. It is false if none can be seen: the process is in another network
// namespace, or has none.
//
// containerd writes a layer into its store by 1 MiB (core/content, copyWithBuffer), and
// until then neither its content service nor the file shows that anything comes.
func wireQuiet(pid int) (time.Duration, bool, error) {
	own, err := socketsOf(pid)
	if err != nil {
		return 0, false, err
	}
	var all []connection
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		found, err := connections(family)
		if err != nil {
			return 0, false, err
		}
		all = append(all, found...)
	}
	quiet, seen := quietest(all, own)
	return quiet, seen, nil
}

// wireOf is wireQuiet of the process behind an endpoint.
func wireOf(ctx context.Context, endpoint string) (time.Duration, bool) {
	pid, err := cri.ServerPID(ctx, endpoint)
	if err != nil || pid <= 0 {
		return 0, false
	}
	quiet, seen, err := wireQuiet(pid)
	return quiet, seen && err == nil
}

// quietest is the shortest time without data of the connections that the owner of some
// sockets opened. Those that it accepted are no pull's: their port is one on which it
// listens.
func quietest(all []connection, own map[uint32]bool) (quiet time.Duration, seen bool) {
	accepts := map[uint16]bool{}
	for _, c := range all {
		if c.listen && own[c.inode] {
			accepts[c.port] = true
		}
	}
	for _, c := range all {
		if c.listen || !own[c.inode] || accepts[c.port] {
			continue
		}
		if !seen || c.quiet < quiet {
			quiet, seen = c.quiet, true
		}
	}
	return quiet, seen
}

// socketsOf lists the inodes of a process's sockets.
func socketsOf(pid int) (map[uint32]bool, error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxSockets)
	if err != nil {
		return nil, err
	}
	out := map[uint32]bool{}
	for _, name := range names {
		target, err := os.Readlink(dir.Name() + "/" + name)
		if err != nil {
			continue // closed since then
		}
		number, ok := strings.CutPrefix(target, "socket:[")
		if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 32); ok && err == nil {
			out[uint32(inode)] = true
		}
	}
	return out, nil
}

// connections asks the kernel by sock_diag(7) for the TCP sockets of this network
// namespace that are connected or listen.
func connections(family uint8) ([]connection, error) {
	req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	req.AddData(wireRequest(family))
	var out []connection
	err := req.ExecuteIter(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY, func(msg []byte) bool {
		if c, ok := parseConnection(msg); ok {
			out = append(out, c)
		}
		return true
	})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	return out, nil
}

// wireRequest is an inet_diag_req_v2 for a family.
type wireRequest uint8

// Len is part of nl.NetlinkRequestData.
func (wireRequest) Len() int { return diagRequestLen }

// Serialize is part of nl.NetlinkRequestData.
func (r wireRequest) Serialize() []byte {
	b := make([]byte, diagRequestLen)
	b[0], b[1], b[2] = uint8(r), unix.IPPROTO_TCP, 1<<(diagInfo-1)
	binary.NativeEndian.PutUint32(b[4:], 1<<tcpEstablished|1<<tcpListen)
	return b
}

// parseConnection reads an inet_diag_msg and its tcp_info.
func parseConnection(msg []byte) (connection, bool) {
	if len(msg) < diagMessageLen {
		return connection{}, false
	}
	c := connection{inode: binary.NativeEndian.Uint32(msg[diagMessageNode:]), port: binary.BigEndian.Uint16(msg[4:]), listen: msg[1] == tcpListen}
	attrs, err := nl.ParseRouteAttr(msg[diagMessageLen:])
	if err != nil {
		return connection{}, false
	}
	for _, a := range attrs {
		if a.Attr.Type == diagInfo && len(a.Value) >= infoLastData+4 {
			c.quiet = time.Duration(binary.NativeEndian.Uint32(a.Value[infoLastData:])) * time.Millisecond
			return c, true
		}
	}
	return c, c.listen
}
