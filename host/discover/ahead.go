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

// Ahead reads the facts that other podrun processes do not change: the machine, its
// network, its cgroups, the runtime itself. They can be read without the node lock, while
// podrun reads the manifests.
type Ahead struct {
	begun time.Time
	asked chan struct{} // closed when down is set
	done  chan struct{} // closed when all fields are set

	facts host.Facts
	// sandboxes are all sandboxes of the runtime, if requested.
	sandboxes []*runtimeapi.PodSandbox
	down      error // why the runtime does not respond
	unread    []error
}

// freshFor is the maximum age of facts. Input that a person types takes longer.
const freshFor = time.Second

// ReadAhead starts to read the facts. The argument kubelet is Options.Kubelet.
func ReadAhead(ctx context.Context, client *cri.Client, s nodeconfig.Settings, kubelet bool) *Ahead {
	return machine{ctx: ctx, root: "/"}.begin(client, s, kubelet, false)
}

// Fresh reports whether the facts are recent, and no call to the runtime has failed so far. It
// returns false if a is nil.
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

// read waits until the facts are read or ctx ends, and then returns the error of ctx.
func (a *Ahead) read(ctx context.Context) (host.Facts, error) {
	select {
	case <-a.done:
		return a.facts, nil
	case <-ctx.Done():
		return host.Facts{}, ctx.Err()
	}
}

// whileAnswering returns a context that is canceled if the runtime does not answer, so that other
// calls need not wait for their longer timeouts.
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

// yielding lets other goroutines run before part, because those that connect to the runtime and
// call it take longest. With few CPUs they would otherwise run last, because each goroutine wakes
// the next.
func yielding(part func() error) func() error {
	return func() error {
		runtime.Gosched()
		return part()
	}
}

// begin starts to read the facts and, if list is set, the runtime's sandboxes.
func (m machine) begin(client *cri.Client, s nodeconfig.Settings, kubelet, list bool) *Ahead {
	a := &Ahead{begun: time.Now(), asked: make(chan struct{}), done: make(chan struct{})}
	f := &a.facts
	go func() {
		defer close(a.done)
		// Each function sets its own fields.
		a.unread = runAll(
			yielding(func() error { return m.readMachine(f, s) }),
			yielding(func() error { return m.readNetwork(f, s) }),
			yielding(func() error { return m.readCgroup(&f.Cgroup) }),
			yielding(func() (err error) {
				if kubelet {
					f.Kubelet, err = m.findKubelet(endpointOf(client))
				}
				return err
			}),
			func() error {
				defer close(a.asked)
				var rt runtimeFacts
				rt, a.down = readRuntime(m.ctx, client, list)
				f.Runtime, f.ImageFS, a.sandboxes = rt.runtime, rt.imageFS, rt.sandboxes
				if f.Runtime.IsCRIO() {
					m.addCRIO(&f.Runtime, f.Runtime.Endpoint, rt.verbose)
				}
				return nil
			},
		)
	}()
	return a
}
