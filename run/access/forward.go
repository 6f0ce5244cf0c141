package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
)

// maxForwarded limits the number of connections that are forwarded at the same time. Further
// connections wait to be accepted.
const maxForwarded = 1024

// findForwardEvery is the interval at which podrun looks up the pod's sandbox.
const findForwardEvery = 2 * time.Second

var errNoSandbox = errors.New("is not running: it has no sandbox")

// ForwardPort maps a port of this host to a TCP port of the pod, which is a number or the name of a port in the
// pod's spec. If the port of this host is 0, podrun chooses a free one.
type ForwardPort struct {
	Local  int
	Remote string
}

// ForwardOptions are the options of Forward.
type ForwardOptions struct {
	Namespace, Name string
	Ports           []ForwardPort
	// Addresses are the addresses of this host to listen on. They are IP addresses or localhost.
	// The name localhost means 127.0.0.1 and, if the host has it, ::1.
	Addresses []string
	// Listening is called for each address when podrun listens on it. Failed is called when podrun
	// could not forward a connection.
	Listening func(local net.Addr, remote int)
	Failed    func(local net.Addr, remote int, err error)
}

// Forward forwards connections on ports of this host to a pod until the pod no longer has a
// sandbox, or until ctx ends, which is not an error. It continues if the pod's sandbox is replaced,
// or if podrun must reconnect to the runtime. An error is of kind Usage if the pod has no such
// port, Failed if podrun cannot listen on a port or the pod does not run, and Runtime if the
// runtime does not respond.
func Forward(ctx context.Context, n *node.Node, o ForwardOptions) error {
	seen, err := lookup.ObservePod(ctx, n, o.Namespace, o.Name)
	if err != nil {
		return err
	}
	remotes := make([]int, len(o.Ports))
	for i, p := range o.Ports {
		if remotes[i], err = remotePort(seen, p.Remote); err != nil {
			return err
		}
	}
	f := &forwarder{node: n, id: seen.ID, options: o, slots: make(chan struct{}, maxForwarded)}
	if err := f.find(ctx); err != nil { // before podrun listens on any port
		return err
	}
	defer f.work.Wait()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, p := range o.Ports {
		if err := f.listen(inner, p.Local, remotes[i]); err != nil {
			return err
		}
	}
	for wait.Sleep(ctx, findForwardEvery) == nil {
		err := f.find(ctx)
		if n, ok := errors.AsType[*problem.Error](err); ok && n.Kind == problem.Failed && !errors.Is(err, errNoSandbox) {
			return err // the pod was deleted
		}
	}
	return nil
}

// remotePort finds a pod's port by number or name.
func remotePort(s lookup.Seen, name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	for _, c := range s.Pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				return int(p.ContainerPort), nil
			}
		}
	}
	return 0, &problem.Error{Kind: problem.Usage, Object: "pod " + s.ID.String(),
		Err:  fmt.Errorf("no container declares a port named %q", name),
		Hint: "give the number of the port, or run 'podrun describe " + s.ID.Name + "' to show the names"}
}

// forwarder forwards the connections of one command.
type forwarder struct {
	node    *node.Node
	id      identity.Pod
	options ForwardOptions
	slots   chan struct{}
	work    sync.WaitGroup
	sandbox atomic.Pointer[string] // ID of the pod's last known sandbox
}

// listen listens on a port of all addresses, and accepts connections until ctx ends. For localhost, one address
// is sufficient. If local is 0, listen lets the kernel choose a port for the first address, and uses it for all
// addresses.
func (f *forwarder) listen(ctx context.Context, local, remote int) error {
	for _, address := range f.options.Addresses {
		hosts := []string{address}
		if address == "localhost" {
			hosts = []string{"127.0.0.1", "::1"}
		}
		var errs []error
		for _, host := range hosts {
			l, err := (&net.ListenConfig{}).Listen(ctx, network(host), net.JoinHostPort(host, strconv.Itoa(local)))
			if err != nil {
				errs = append(errs, err)
				continue
			}
			local = l.Addr().(*net.TCPAddr).Port
			f.options.Listening(l.Addr(), remote)
			stop := context.AfterFunc(ctx, func() { _ = l.Close() })
			f.work.Go(func() {
				defer stop()
				f.accept(ctx, l, remote)
			})
		}
		if len(errs) == len(hosts) {
			return &problem.Error{Kind: problem.Failed, Object: "pod " + f.id.String(), Op: "listen",
				Err: errs[0], Hint: "choose another local port (LOCAL:REMOTE), or any free one (:REMOTE)"}
		}
	}
	return nil
}

// network returns the network of an IP address. With "tcp", Go would listen on IPv6 addresses as well if the
// address is 0.0.0.0; kubectl does not.
func network(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

func (f *forwarder) accept(ctx context.Context, l net.Listener, remote int) {
	defer l.Close()
	for {
		select {
		case f.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			<-f.slots
			if ctx.Err() == nil && wait.Sleep(ctx, 100*time.Millisecond) == nil && !errors.Is(err, net.ErrClosed) {
				continue // for example, no free file descriptor
			}
			return
		}
		f.work.Go(func() {
			defer func() { <-f.slots }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			if err := f.forward(ctx, conn.(*net.TCPConn), remote); err != nil && ctx.Err() == nil {
				f.options.Failed(l.Addr(), remote, err)
			}
		})
	}
}

// forward copies in both directions until the pod closes the connection.
func (f *forwarder) forward(ctx context.Context, conn *net.TCPConn, remote int) error {
	to, err := f.open(ctx, remote)
	if err != nil {
		return f.explainRefused(remote, err)
	}
	defer to.Close()
	defer context.AfterFunc(ctx, to.Close)()
	go func() {
		if _, err := io.Copy(to, conn); err != nil {
			to.Close() // the client has closed the connection
			return
		}
		// The copy in the other direction reports a broken connection.
		_ = to.CloseWrite()
	}()
	_, copied := io.Copy(conn, to)
	limited, cancel := context.WithTimeout(ctx, time.Second) // a runtime may keep the connection open
	defer cancel()
	if err := to.Err(limited); err != nil && limited.Err() == nil {
		return f.explainRefused(remote, err)
	}
	return copied
}

// explainRefused replaces the runtime's error if the pod refused the connection. Runtimes report this only
// as text.
func (f *forwarder) explainRefused(remote int, err error) error {
	if !strings.Contains(strings.ToLower(err.Error()), unix.ECONNREFUSED.Error()) {
		return err
	}
	return fmt.Errorf("connection refused: no process of pod %s listens on port %d ('podrun describe %s' shows the declared ports)", f.id, remote, f.id.Name)
}

// link is a connection to a port of the pod.
type link interface {
	io.ReadWriter
	CloseWrite() error
	Close()
	Err(context.Context) error
}

// open opens a connection to the pod. If the sandbox was replaced, it tries once more. If
// the runtime does not forward ports, open connects in the sandbox's network namespace.
func (f *forwarder) open(ctx context.Context, remote int) (link, error) {
	for {
		id := *f.sandbox.Load()
		to, err := f.node.Client.Streaming.PortForward(ctx, id, remote)
		if err == nil {
			return to, nil
		}
		_, unreachable := errors.AsType[*cri.NotStreamedError](err)
		if ctx.Err() == nil && (unreachable || status.Code(err) == codes.Unimplemented) {
			pid, otherwise := observe.SandboxPID(ctx, f.node.Client, id)
			if otherwise == nil {
				return cri.DialPort(ctx, pid, remote)
			}
			err = errors.Join(err, otherwise)
		}
		lost := f.find(ctx)
		if e, ok := errors.AsType[*problem.Error](lost); ok && e.Kind == problem.Failed {
			return nil, lost // the pod was stopped or deleted
		}
		if lost != nil || *f.sandbox.Load() == id {
			return nil, err
		}
	}
}

// find finds the pod's sandbox. It returns errNoSandbox if the pod has no sandbox at the moment.
func (f *forwarder) find(ctx context.Context) error {
	seen, err := lookup.ObservePod(ctx, f.node, f.id.Namespace, f.id.Name)
	if err != nil {
		return err
	}
	box := seen.Obs.Sandbox()
	if box == nil || !box.Ready {
		return noSandbox(f.id)
	}
	f.sandbox.Store(&box.ID)
	return nil
}

func noSandbox(id identity.Pod) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + id.String(), Err: errNoSandbox,
		Hint: "run 'podrun describe " + id.Name + "' for details"}
}
