package serve

import (
	"context"
	"errors"
	"net"
	"os/user"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/serve/supervisor"
)

// APISocket is a unix socket of the API.
type APISocket = nodeapi.Socket

// APIOptions are the options of the HTTP API.
type APIOptions struct {
	Socket APISocket // for the whole API; none if Path is empty
	Status APISocket // for metrics and status only, accessible to StatusGroup if that group exists; none if Path is empty
	Listen string    // TCP address, with TLS; "" for none
	TLS    nodeapi.TLSFiles

	// for clients of Listen; see nodeapi.Backend
	Authorize func(context.Context, nodeapi.Access) error
	LocalName func(namespace, pod string) string
}

// StatusGroup is the group whose members may read metrics and status, so that a monitoring agent
// need not run as root. The deb and rpm packages create the group; without the group, only root
// can read metrics and status.
const StatusGroup = "podrun"

// api is a supervisor's HTTP API.
type api struct {
	engine        *run.Node
	options       APIOptions
	metrics       *nodeapi.Metrics
	feed          *nodeapi.Feed
	server        *nodeapi.Server
	usage         usageReader
	loops         sync.WaitGroup
	runtime       func() RuntimeState // see Options.Runtime
	settingsFault func() string       // see Options.SettingsFault
	// services describes the Services that do not work
	services func() string
	// servicesNote names the Services without an endpoint
	servicesNote func() string

	files *stateFiles // nil if there is no supervisor

	mu    sync.Mutex
	super *supervisor.Supervisor // nil until supervised sets it
	// by address: why podrun cannot listen on the address
	deaf map[string]string
}

// newAPI returns the API of a supervisor. The caller sets the supervisor later, with
// supervised.
func newAPI(e *run.Node, all Options, s *services, files *stateFiles) *api {
	o := all.API
	if all.Cluster != nil {
		o.Authorize = all.Cluster.Authorize
		o.LocalName = all.Cluster.LocalName
	}
	a := &api{engine: e, options: o, usage: usageReader{engine: e}, feed: &nodeapi.Feed{}, deaf: map[string]string{},
		runtime: all.Runtime, settingsFault: all.SettingsFault, services: s.problem, servicesNote: s.note, files: files}
	a.metrics = nodeapi.NewMetrics(e.NodeName(), a.state)
	a.server = nodeapi.NewServer(nodeapi.Backend{Health: a.health, Pods: a.pods, Sources: a.sourcesAndRemoved, Stats: a.usage.read,
		Authorize: o.Authorize, LocalName: o.LocalName,
		Events: a.events, Logs: a.logs, Exec: a.exec, Attach: a.attach, PortForward: a.portForward, Feed: a.feed, Metrics: a.metrics,
		ReadOnly: e.Settings.ReadOnlyAPI})
	e.Client.Observe(a.metrics.RuntimeCall)
	return a
}

// observe makes a node report its events, pulls and probes to the API.
func (a *api) observe(n *node.Node) {
	emit := n.Emit
	n.Emit = func(e event.Event) {
		a.metrics.Event(e)
		a.feed.Emit(e)
		if emit != nil {
			emit(e)
		}
	}
	n.Observer.Pulled, n.Observer.Probed = a.metrics.Pulled, func(id identity.Pod, container, kind, result string) {
		a.metrics.Probed(nodeapi.ProbeResult{ContainerName: nodeapi.ContainerName{Namespace: id.Namespace, Pod: id.Name, Container: container},
			UID: id.UID, Type: kind, Result: probeResult(result)})
	}
}

// probeResult returns the kubelet's label for an outcome (pkg/kubelet/prober).
func probeResult(outcome string) string {
	switch outcome {
	case "success", "warning":
		return "successful"
	case "failure":
		return "failed"
	}
	return "unknown"
}

// supervised sets the supervisor whose pods the API reports.
func (a *api) supervised(s *supervisor.Supervisor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.super = s
}

// listen starts to serve the API. It returns after the first attempt to listen, so that clients can connect when
// podrun has reported that it is ready. If podrun cannot listen on an address, for example because the host does not
// have it yet, listen tries again later, and podrun runs the pods anyway.
func (a *api) listen(ctx context.Context) {
	serve := func(address string, serve func(net.Listener) error, listen func() (net.Listener, error)) {
		l, err := listen()
		a.note(address, err)
		a.loops.Go(func() {
			for {
				if err == nil {
					stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // makes Serve return
					err = serve(l)
					stop()
					_ = l.Close()
				}
				if err != nil && ctx.Err() == nil {
					a.engine.WarnOnce(problem.Problem{Object: "HTTP API", Message: err.Error(), Hint: "podrun retries every 10 s"})
				}
				if wait.Sleep(ctx, listenAgain) != nil {
					return
				}
				l, err = listen()
				a.note(address, err)
			}
		})
	}
	if o := a.options; o.Socket.Path != "" {
		serve(o.Socket.Path, a.server.Serve, func() (net.Listener, error) { return nodeapi.ListenUnix(o.Socket) })
	}
	if o := a.options; o.Status.Path != "" {
		serve(o.Status.Path, a.server.ServeStatus, func() (net.Listener, error) {
			if _, err := user.LookupGroup(StatusGroup); err == nil {
				o.Status.Group = StatusGroup
			}
			return nodeapi.ListenUnix(o.Status)
		})
	}
	if o := a.options; o.Listen != "" {
		serve(o.Listen, a.server.Serve, func() (net.Listener, error) { return nodeapi.ListenTLS(ctx, o.Listen, o.TLS) })
	}
}

const listenAgain = 10 * time.Second

func (a *api) note(address string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.deaf, address)
	if err != nil {
		a.deaf[address] = err.Error()
	}
}

// close ends the API after its context has ended.
func (a *api) close() {
	a.server.Close()
	a.loops.Wait()
}

// supervisor returns the supervisor, or an error if it is not set yet.
func (a *api) supervisor() (*supervisor.Supervisor, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.super == nil {
		return nil, errors.New("podrun serve is starting")
	}
	return a.super, nil
}
