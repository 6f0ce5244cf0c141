// Package hostports forwards ports of the host to addresses of pods and Services, which only the
// node's network namespace can reach. RUN/ports.sock is its interface.
package hostports

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Port is a host port and its destination.
type Port struct {
	Protocol string     `json:"protocol"` // tcp or udp
	HostIP   string     `json:"hostIP"`   // empty: all addresses
	HostPort uint16     `json:"hostPort"`
	Address  netip.Addr `json:"address"`
	Port     uint16     `json:"port"`
	// Owner is set in lists and in the record.
	Owner string `json:"owner,omitempty"`
	// Error is the reason why the port is not open (in lists): after a restart, another process may use
	// it.
	Error string `json:"error,omitempty"`
}

// Socket returns a socket of the node's network namespace.
type Socket func(family, kind int) (fd int, err error)

// Forwarder forwards ports.
type Forwarder struct {
	socket Socket
	// save records the ports, before a change is reported as done.
	save func([]Port) error

	mu   sync.Mutex
	open []*forward
	// slots limits the TCP connections of all ports.
	slots chan struct{}
}

// forward is a port. closer is nil if it is not open.
type forward struct {
	Port
	closer io.Closer
}

const maxConnections = 8192

// New returns a Forwarder without ports. files is the number of files that the process may open; a connection
// has two.
func New(socket Socket, save func([]Port) error, files int) *Forwarder {
	return &Forwarder{socket: socket, save: save, slots: make(chan struct{}, max(1, min(maxConnections, files/8)))}
}

// PortError is the error of one port.
type PortError struct {
	Port Port
	Err  error
}

func (e *PortError) Error() string {
	return fmt.Sprintf("host port %d/%s: %v", e.Port.HostPort, e.Port.Protocol, e.Err)
}
func (e *PortError) Unwrap() error { return e.Err }

// check validates a port.
func (p Port) check() error {
	host, err := netip.ParseAddr(p.HostIP)
	switch {
	case p.Protocol == "sctp":
		return unix.EPROTONOSUPPORT
	case p.Protocol != "tcp" && p.Protocol != "udp":
		return fmt.Errorf("unknown protocol %q", p.Protocol)
	case p.HostPort == 0 || p.Port == 0:
		return errors.New("a port is 0")
	case !p.Address.IsValid() || p.Address.IsUnspecified() || p.Address.IsLoopback() || p.Address.IsMulticast() || p.Address.Zone() != "":
		return fmt.Errorf("invalid address %q", p.Address)
	case p.HostIP != "" && (err != nil || host.IsMulticast()):
		return fmt.Errorf("invalid host address %q", p.HostIP)
	}
	return nil
}

// Add replaces the ports of an owner: all, or none if one of them fails. Ports that do not change
// remain open.
func (f *Forwarder) Add(owner string, ports []Port) error {
	ports = slices.Clone(ports)
	for i, p := range ports {
		if err := p.check(); err != nil {
			return &PortError{p, err}
		}
		ports[i].Owner, ports[i].Error = owner, ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var kept, gone, added []*forward
	for _, o := range f.open {
		if o.Owner != owner {
			kept = append(kept, o)
			continue
		}
		i := slices.Index(ports, o.Port)
		if i < 0 || o.closer == nil {
			gone = append(gone, o)
			continue
		}
		kept = append(kept, o)
		ports = slices.Delete(ports, i, i+1)
	}
	for _, p := range ports {
		closer, err := f.listen(p)
		if errors.Is(err, unix.EADDRINUSE) && closePort(p, gone) {
			closer, err = f.listen(p)
		}
		if err != nil {
			f.undo(added, gone)
			return &PortError{p, err}
		}
		added = append(added, &forward{p, closer})
	}
	if err := f.store(append(slices.Clone(kept), added...)); err != nil {
		f.undo(added, gone)
		return err
	}
	f.open = append(kept, added...)
	closeAll(gone)
	return nil
}

// closePort closes those ports of the owner that a port with another destination replaces, and reports
// whether there is one.
func closePort(p Port, gone []*forward) bool {
	closed := false
	for _, o := range gone {
		if o.closer != nil && o.Protocol == p.Protocol && o.HostPort == p.HostPort {
			_ = o.closer.Close()
			o.closer, closed = nil, true
		}
	}
	return closed
}

// undo closes the ports of a failed change, and opens those again that closePort has closed.
func (f *Forwarder) undo(added, gone []*forward) {
	closeAll(added)
	for _, o := range gone {
		if o.closer == nil {
			f.reopen(o)
		}
	}
}

func (f *Forwarder) reopen(o *forward) {
	closer, err := f.listen(o.Port)
	if o.closer, o.Error = closer, ""; err != nil {
		o.closer, o.Error = nil, err.Error()
	}
}

func closeAll(all []*forward) {
	for _, o := range all {
		if o.closer != nil {
			_ = o.closer.Close()
		}
	}
}

// Delete closes the ports of an owner.
func (f *Forwarder) Delete(owner string) error { return f.Add(owner, nil) }

// List returns all ports.
func (f *Forwarder) List() []Port {
	f.mu.Lock()
	defer f.mu.Unlock()
	return portsOf(f.open)
}

func portsOf(all []*forward) []Port {
	out := []Port{}
	for _, o := range all {
		out = append(out, o.Port)
	}
	return out
}

func (f *Forwarder) store(all []*forward) error {
	ports := portsOf(all)
	for i := range ports {
		ports[i].Error = ""
	}
	return f.save(ports)
}

// retry is the interval at which ports that could not be opened are tried again.
const retry = 3 * time.Second

// Restore opens recorded ports. One that another process uses is tried again, until it is open or
// deleted.
func (f *Forwarder) Restore(ports []Port) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := false
	for _, p := range ports {
		if p.check() != nil || p.Owner == "" {
			continue
		}
		o := &forward{Port: p}
		f.reopen(o)
		failed = failed || o.closer == nil
		f.open = append(f.open, o)
	}
	if failed {
		time.AfterFunc(retry, f.tryAgain)
	}
}

func (f *Forwarder) tryAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := false
	for _, o := range f.open {
		if o.closer == nil {
			f.reopen(o)
			failed = failed || o.closer == nil
		}
	}
	if failed {
		time.AfterFunc(retry, f.tryAgain)
	}
}

// listen opens a port.
func (f *Forwarder) listen(p Port) (io.Closer, error) {
	network := p.Protocol
	if host, err := netip.ParseAddr(p.HostIP); err == nil {
		network += map[bool]string{true: "4", false: "6"}[host.Unmap().Is4()]
	}
	at := net.JoinHostPort(p.HostIP, fmt.Sprint(p.HostPort))
	to := netip.AddrPortFrom(p.Address, p.Port)
	if p.Protocol == "udp" {
		return f.listenUDP(network, at, to)
	}
	return f.listenTCP(network, at, to)
}

// ErrnoName returns the name of the system's error, for podrun-net.
func ErrnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	if errors.Is(err, os.ErrPermission) {
		return "EPERM"
	}
	return ""
}
