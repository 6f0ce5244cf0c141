package discover

import (
	"context"
	"runtime"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// Ahead reads the facts that other podrun processes do not change: those about the machine, its
// network, its cgroups, and the runtime itself. podrun can read them without the node's lock,
// while it reads the manifests.
type Ahead struct {
	begun time.Time
	asked chan struct{} // closed when down has been set
	done  chan struct{} // closed when all fields have been set

	facts host.Facts
	// sandboxes are all sandboxes of the runtime, if the caller requested them.
	sandboxes []*runtimeapi.PodSandbox
	down      error // why the runtime does not respond
	unread    []error
}

// freshFor is the maximum age of facts. Facts are older than that if a person must first type
// the input.
const freshFor = time.Second

// ReadAhead starts to read the facts. The argument kubelet is Options.Kubelet.
func ReadAhead(ctx context.Context, client *cri.Client, s nodeconfig.Settings, kubelet bool) *Ahead {
	return begin(machine{ctx: ctx, root: "/"}, client, s, kubelet, false)
}

// Fresh reports whether the facts are recent, and whether all calls to the runtime have
// succeeded so far. If a is nil, it returns false.
func (a *Ahead) Fresh() bool {
	if a == nil || time.Since(a.begun) > freshFor {
		return false
	}
	select {
	case <-a.asked:
		return a.down == nil
	default:
		return true
	}
}

// read waits until the facts have been read, or until ctx ends. If ctx ends, it returns the
// error of ctx.
func (a *Ahead) read(ctx context.Context) (host.Facts, error) {
	select {
	case <-a.done:
		return a.facts, nil
	case <-ctx.Done():
		return host.Facts{}, ctx.Err()
	}
}

// whileAnswering returns a context for other calls. If the runtime does not answer, it cancels
// the context, so that these calls need not wait for their longer timeouts.
func (a *Ahead) whileAnswering(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-a.asked
		if a.down != nil {
			cancel()
		}
	}()
	return ctx, cancel
}

// yielding lets other goroutines run before part: those that connect to the runtime and call it
// take longest. With few CPUs, they would otherwise run last, because each goroutine wakes the
// next one.
func yielding(part func() error) func() error {
	return func() error {
		runtime.Gosched()
		return part()
	}
}

// begin starts to read the facts and, if list is set, the runtime's sandboxes.
func begin(m machine, client *cri.Client, s nodeconfig.Settings, kubelet, list bool) *Ahead {
	a := &Ahead{begun: time.Now(), asked: make(chan struct{}), done: make(chan struct{})}
	f := &a.facts
	go func() {
		defer close(a.done)
		// Each function sets different fields.
		a.unread = runAll(
			yielding(func() error { return node{m}.readMachine(f, s) }),
			yielding(func() error { return m.readNetwork(f, s) }),
			yielding(func() error { return cgroups{m}.readCgroup(&f.Cgroup) }),
			yielding(func() (err error) {
				if kubelet {
					f.Kubelet, err = kubeletSearch{m}.findKubelet(endpointOf(client))
				}
				return err
			}),
			func() error {
				defer close(a.asked)
				var rt runtimeFacts
				rt, a.down = readRuntime(m.ctx, client, list)
				f.Runtime, f.ImageFS, a.sandboxes = rt.runtime, rt.imageFS, rt.sandboxes
				if f.Runtime.IsCRIO() {
					crio{m}.addCRIO(&f.Runtime, f.Runtime.Endpoint, rt.verbose)
				}
				return nil
			},
		)
	}()
	return a
}
