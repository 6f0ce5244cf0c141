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

// Ahead is a reading of the facts that no other podrun changes: the machine, its network,
// its control groups, the runtime itself. They need not be read under the node's lock,
// and are read while the manifests are.
type Ahead struct {
	begun time.Time
	asked chan struct{} // closed when down is set
	done  chan struct{} // closed when all is set

	facts host.Facts
	// sandboxes are all of the runtime's, if they were to be listed.
	sandboxes []*runtimeapi.PodSandbox
	down      error // why the runtime does not respond
	unread    []error
}

// freshFor is how old a reading may be: input that a person types takes longer.
const freshFor = time.Second

// ReadAhead begins to read. Kubelet is that of Options.
func ReadAhead(ctx context.Context, client *cri.Client, s nodeconfig.Settings, kubelet bool) *Ahead {
	return machine{ctx: ctx, root: "/"}.begin(client, s, kubelet, false)
}

// Fresh reports whether a reading was begun recently, and the runtime has not failed to
// answer so far. It is false for nil.
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

// read waits for the reading, or for the end of ctx: its error is that of ctx.
func (a *Ahead) read(ctx context.Context) (host.Facts, error) {
	select {
	case <-a.done:
		return a.facts, nil
	case <-ctx.Done():
		return host.Facts{}, ctx.Err()
	}
}

// while returns a context that ends when the runtime turns out not to answer: other calls
// need not wait for their longer limits then.
func (a *Ahead) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-a.asked
		if a.down != nil {
			cancel()
		}
	}()
	return ctx, cancel
}

// behind makes a part let other goroutines run first: those that connect to the runtime and
// call it, which takes longest. With few CPUs they would otherwise run last, because each
// wakes the next.
func behind(part func() error) func() error {
	return func() error {
		runtime.Gosched()
		return part()
	}
}

// begin begins to read, with list also the runtime's sandboxes.
func (m machine) begin(client *cri.Client, s nodeconfig.Settings, kubelet, list bool) *Ahead {
	a := &Ahead{begun: time.Now(), asked: make(chan struct{}), done: make(chan struct{})}
	f := &a.facts
	go func() {
		defer close(a.done)
		// Each part fills fields of its own.
		a.unread = together(
			behind(func() error { return m.readMachine(f, s) }),
			behind(func() error { return m.readNetwork(f, s) }),
			behind(func() error { return m.readCgroup(&f.Cgroup) }),
			behind(func() (err error) {
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
