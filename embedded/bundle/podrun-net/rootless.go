package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/containernetworking/cni/pkg/types"
)

// rootless is the setting with which the plugin works for an ordinary user (docs/design/rootless.md): it
// enters the node's network namespace, and podrun-rootless opens the host ports.
type rootless struct {
	// Netns is a bind mount of the node's network namespace.
	Netns string `json:"netns"`
	// Ports is the socket of podrun-rootless.
	Ports string `json:"ports"`
}

// enterNode reads the input, and enters the namespace that it names. The plugin then reads the input again, from a file
// in memory.
func enterNode() error {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var c struct {
		Rootless *rootless `json:"rootless"`
	}
	_ = json.Unmarshal(data, &c) // parse and parseServices report the error
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	input := os.NewFile(uintptr(fd), "input")
	if _, err := input.Write(data); err != nil {
		return err
	}
	if _, err := input.Seek(0, io.SeekStart); err != nil {
		return err
	}
	os.Stdin = input
	if c.Rootless == nil {
		return nil
	}
	lockDir = filepath.Join(filepath.Dir(c.Rootless.Netns), "podrun-net")
	return c.Rootless.enter()
}

// enter enters the namespace with the main thread only: all work that depends on the namespace is done by the main
// goroutine, which stays on this thread (init of package main), or in a sandbox's namespace. Go starts other threads in
// the host's namespace, even those that the main goroutine needs. To execute this program again in the namespace, as
// releases before did, would double the time of its start.
func (r *rootless) enter() error {
	if r.Netns == "" || r.Ports == "" {
		return errors.New("the setting rootless requires netns and ports")
	}
	node, err := unix.Open(r.Netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the node's network namespace %s: %w", r.Netns, err)
	}
	defer unix.Close(node)
	if err := unix.Setns(node, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the node's network namespace %s: %w: run a podrun command, which creates it", r.Netns, err)
	}
	return nil
}

// forwardedPort is a port of podrun-rootless.
type forwardedPort struct {
	Protocol string `json:"protocol"`
	HostIP   string `json:"hostIP"`
	HostPort uint16 `json:"hostPort"`
	Address  string `json:"address"`
	Port     uint16 `json:"port"`
	Owner    string `json:"owner,omitempty"`
	Error    string `json:"error,omitempty"`
}

// errNotRunning means that podrun-rootless does not accept connections.
var errNotRunning = errors.New("podrun-rootless is not running: run a podrun command, which starts it")

// callLimit limits a call of podrun-rootless, which takes milliseconds.
const callLimit = 15 * time.Second

// connect connects to podrun-rootless. The package net would make the program, of which the archive contains
// three copies, 0.35 MB larger.
func (r *rootless) connect() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	limit := unix.NsecToTimeval(callLimit.Nanoseconds())
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
	for err == nil {
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: r.Ports}); !errors.Is(err, unix.EINTR) {
			break
		}
		err = nil
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), r.Ports), nil
}

// call sends a request to podrun-rootless, and returns the ports of its reply.
func (r *rootless) call(op, owner string, ports []forwardedPort) ([]forwardedPort, error) {
	c, err := r.connect()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, errNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", r.Ports, err)
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(map[string]any{"op": op, "owner": owner, "ports": ports}); err != nil {
		return nil, fmt.Errorf("podrun-rootless: %w", err)
	}
	var reply struct {
		Ports []forwardedPort `json:"ports"`
		Error string          `json:"error"`
	}
	if err := json.NewDecoder(c).Decode(&reply); err != nil {
		return nil, fmt.Errorf("podrun-rootless: %w", err)
	}
	if reply.Error != "" {
		return nil, errors.New(reply.Error)
	}
	return reply.Ports, nil
}

// openPorts opens the host ports of an attachment: all or none.
func (r *rootless) openPorts(a attachment) error {
	ports := a.nodePorts()
	if len(ports) == 0 {
		return nil
	}
	fault("ports/before")
	_, err := r.call("add", a.comment, ports)
	fault("ports/after")
	return err
}

// closePorts closes the host ports of an owner. If podrun-rootless is not running, this is an error for an
// owner in its record: it would open these ports at its next start, and forward them to the next pod with
// the same address.
func (r *rootless) closePorts(owner string) error {
	fault("unport/before")
	_, err := r.call("delete", owner, nil)
	if errors.Is(err, errNotRunning) {
		if ports, e := r.recorded(); e == nil && !slices.ContainsFunc(ports, func(p forwardedPort) bool { return p.Owner == owner }) {
			return nil
		}
	}
	return err
}

// recorded returns the ports in the record of podrun-rootless, which is beside its socket.
func (r *rootless) recorded() ([]forwardedPort, error) {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(r.Ports), "ports.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Ports []forwardedPort `json:"ports"`
	}
	return file.Ports, json.Unmarshal(data, &file)
}

// checkPorts returns an error if a host port of an attachment is not open.
func (r *rootless) checkPorts(a attachment) error {
	open, err := r.call("list", "", nil)
	if err != nil {
		return err
	}
	for _, p := range a.nodePorts() {
		p.Owner = a.comment
		i := slices.IndexFunc(open, func(o forwardedPort) bool { o.Error = ""; return o == p })
		if i < 0 {
			return fmt.Errorf("the host port %d/%s is not open: recreate the sandbox", p.HostPort, p.Protocol)
		}
		if open[i].Error != "" {
			return fmt.Errorf("the host port %d/%s is not open: %s", p.HostPort, p.Protocol, open[i].Error)
		}
	}
	return nil
}

// nodePorts returns the host ports of an attachment with their destinations. A port for all addresses of
// the host leads to the IPv4 address, if there is one: podrun-rootless makes a new connection, so clients
// may use IPv6.
func (a attachment) nodePorts() []forwardedPort {
	var out []forwardedPort
	for _, p := range a.ports {
		to := a.v4
		if p.hostIP.IsValid() && p.hostIP.Is6() || !p.hostIP.IsValid() && !a.v4.IsValid() {
			to = a.v6
		}
		if !to.IsValid() {
			continue
		}
		n := forwardedPort{Protocol: protocolName(p.protocol), HostPort: p.host, Address: to.Addr().String(), Port: p.container}
		if p.hostIP.IsValid() {
			n.HostIP = p.hostIP.String()
		}
		out = append(out, n)
	}
	return out
}

func protocolName(number byte) string {
	for name, n := range protocols {
		if n == number && name != "" {
			return name
		}
	}
	return ""
}

// servicesOwner is the prefix of the owners of a network's node ports.
func servicesOwner(bridge string) string { return "services/" + bridge + "/" }

// collectPorts closes the ports whose attachments collect removes. It reads the list before keep looks for
// a pair of interfaces (see collect).
func (r *rootless) collectPorts(keep func(owner string) bool) error {
	open, err := r.call("list", "", nil)
	if errors.Is(err, errNotRunning) {
		return nil // the next collection closes them
	}
	if err != nil {
		return err
	}
	var errs []error
	seen := map[string]bool{}
	for _, p := range open {
		if !seen[p.Owner] && !keep(p.Owner) {
			errs = append(errs, r.closePorts(p.Owner))
		}
		seen[p.Owner] = true
	}
	return errors.Join(errs...)
}

// setNodePorts opens the node ports of a table, and closes all others of its network. A port that cannot be
// opened does not affect the others.
func (r *rootless) setNodePorts(t *serviceTable) error {
	wanted := map[string]forwardedPort{}
	for _, p := range t.Ports {
		owner := fmt.Sprintf("%s%s/%d", servicesOwner(t.Bridge), p.Protocol, p.NodePort)
		if have, ok := wanted[owner]; p.NodePort == 0 || ok && !strings.Contains(have.Address, ":") {
			continue
		}
		wanted[owner] = forwardedPort{Protocol: p.Protocol, HostPort: p.NodePort, Address: p.Address.String(), Port: p.Port}
	}
	err := r.collectPorts(func(owner string) bool {
		_, ok := wanted[owner]
		return ok || !strings.HasPrefix(owner, servicesOwner(t.Bridge))
	})
	errs := []error{err}
	for owner, p := range wanted {
		if _, err := r.call("add", owner, []forwardedPort{p}); err != nil {
			errs = append(errs, fmt.Errorf("node port: %w", err))
		}
	}
	return errors.Join(errs...)
}

// status returns an error if podrun-rootless does not answer.
func (r *rootless) status() error {
	if _, err := r.call("list", "", nil); err != nil {
		return types.NewError(statusUnavailable, "podrun-net cannot open host ports", err.Error())
	}
	return nil
}
