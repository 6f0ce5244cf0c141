package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/bundle/podrun-rootless/gateway"
)

func netnsPath(runDir string) string { return filepath.Join(runDir, "netns") }

// nsfsMagic is the type of the file system of namespaces (linux/magic.h).
const nsfsMagic = 0x6e736673

// openNode returns a thread in N. N is bind-mounted in M, so that other processes find it, and so that
// it remains when this process ends. If the mount does not exist, openNode creates N.
func openNode(runDir string) (*thread, error) {
	path := netnsPath(runDir)
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err == nil && fs.Type == nsfsMagic {
		return newThread(func() error {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Setns(fd, unix.CLONE_NEWNET)
		})
	}
	f, err := os.OpenFile(path, os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	t, err := newThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create the node's network namespace: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := t.do(setupNode); err != nil {
		return nil, err
	}
	fault("netns/before")
	// Last: if the mount exists, N is complete.
	return t, t.do(func() error { return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "") })
}

// setupNode configures N. podrun-net would enable forwarding, too, but probes of the first pod must not
// depend on the order.
func setupNode() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	// Without IPv6 in the kernel, the file does not exist.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// uplink is the name of N's interface to the gateway. Its peer has the name gateway.
const uplink, peerName = "uplink", "gateway"

// hardware contains the gateway's socket and the hardware addresses of both ends.
type hardware struct {
	socket    int
	mac, node net.HardwareAddr
}

// createUplink replaces the pair of interfaces between N and the gateway. The peer is in a namespace
// that only the socket keeps, so the pair ends with this process.
func createUplink(node *thread) (*hardware, error) {
	h := &hardware{socket: -1}
	var outer netns.NsHandle
	peer, err := newThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		// The kernel must not answer instead of the gateway.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
		outer, err = netns.Get()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create the gateway's network namespace: %w", err)
	}
	defer peer.end()
	defer outer.Close()
	if err := node.do(func() error { return h.createPair(outer) }); err != nil {
		return nil, fmt.Errorf("create the uplink: %w", err)
	}
	if err := peer.do(h.openSocket); err != nil {
		return nil, fmt.Errorf("open the gateway's socket: %w", err)
	}
	if err := node.do(h.configureUplink); err != nil {
		return nil, fmt.Errorf("configure the uplink: %w", err)
	}
	return h, nil
}

func (h *hardware) createPair(peer netns.NsHandle) error {
	if old, err := netlink.LinkByName(uplink); err == nil {
		// Of a process that has ended: the kernel has not removed its namespace yet.
		if err := netlink.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = uplink, gateway.MTU
	return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: peerName, PeerNamespace: netlink.NsFd(peer), PeerMTU: gateway.MTU})
}

// openSocket runs in the namespace of the peer.
func (h *hardware) openSocket() error {
	link, err := netlink.LinkByName(peerName)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	h.mac = link.Attrs().HardwareAddr
	// No protocol: the socket receives nothing before bind.
	if h.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return err
	}
	if err := gateway.Prepare(h.socket); err != nil {
		return err
	}
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network byte order
	return unix.Bind(h.socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index})
}

// configureUplink runs in N.
func (h *hardware) configureUplink() error {
	link, err := netlink.LinkByName(uplink)
	if err != nil {
		return err
	}
	h.node = link.Attrs().HardwareAddr
	if err := disableOffloads(uplink); err != nil {
		return err
	}
	ipv6 := os.WriteFile("/proc/sys/net/ipv6/conf/"+uplink+"/accept_ra", []byte("0"), 0) == nil
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	ends := []struct {
		node    *net.IPNet
		gateway net.IP
		family  int
	}{
		{&net.IPNet{IP: gateway.Node4.Addr().AsSlice(), Mask: net.CIDRMask(gateway.Node4.Bits(), 32)}, gateway.Address4.AsSlice(), netlink.FAMILY_V4},
		{&net.IPNet{IP: gateway.Node6.Addr().AsSlice(), Mask: net.CIDRMask(gateway.Node6.Bits(), 128)}, gateway.Address6.AsSlice(), netlink.FAMILY_V6},
	}
	if !ipv6 {
		ends = ends[:1]
	}
	for _, e := range ends {
		flags := 0
		if e.family == netlink.FAMILY_V6 {
			flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: e.node, Flags: flags}); err != nil {
			return err
		}
		// The gateway answers neither ARP nor neighbor discovery.
		neighbor := &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: e.family, State: netlink.NUD_PERMANENT, IP: e.gateway, HardwareAddr: h.mac}
		if err := netlink.NeighSet(neighbor); err != nil {
			return err
		}
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: e.gateway, Dst: defaultDestination(e.family)}); err != nil {
			return err
		}
	}
	return nil
}

func defaultDestination(family int) *net.IPNet {
	if family == netlink.FAMILY_V4 {
		return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	}
	return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
}

// disableOffloads makes the kernel segment all packets but those of TCP before they reach the gateway. gVisor
// would take a packet with several UDP datagrams (UDP_SEGMENT, which QUIC uses) for one datagram. A packet that a
// virtio-net header cannot describe (of SCTP) is an error of the socket, which ends gVisor's receiver.
func disableOffloads(name string) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	features, err := e.FeaturesWithState(name)
	if err != nil {
		return err
	}
	off := map[string]bool{}
	for name, state := range features {
		segments := strings.HasSuffix(name, "-segmentation") && name != "tx-generic-segmentation" || name == "tx-gso-list"
		if segments && !strings.HasPrefix(name, "tx-tcp") && state.Active && !state.NeverChanged {
			off[name] = false
		}
	}
	if len(off) == 0 {
		return nil
	}
	return e.Change(name, off)
}
