// Package critest is a container runtime in miniature for tests. Its Runtime
// answers the Container Runtime Interface as containerd 1.6 does, or as another
// runtime's profile says (profile.go): sandboxes and containers go through the same states, names are reserved, containers run,
// write logs and exit by themselves. Nothing touches the host but log files and
// the files that a container's mounts bring in.
//
// There are two doors. Client calls the runtime as Go functions, so that a test
// inside testing/synctest waits ten minutes in no time; Serve puts it on a unix
// socket for a program under test. Both pass the same gate (gate.go), which
// records the call and plays the faults that the test asked for (fault.go).
//
// What a container does is a Behavior that the test scripts (behavior.go) or
// its command, run by a small shell (package ash).
package critest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is the fake. Its methods named as in the CRI are the services
// themselves: called directly they pass no gate, so they are neither recorded
// nor subject to faults.
type Runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	options options

	mu           sync.Mutex    // guards all below
	clock        int64         // the last time given out, ns
	ahead        time.Duration // SetClock
	serial       int           // of IDs
	names        map[string]string
	sandboxes    map[string]*sandbox
	sandboxTasks map[string]bool // LeaveSandboxTask
	containers   map[string]*container
	created      map[string]*containersapi.Container // records that clients created by containerd's own service
	memory       map[string]uint64                   // what containers use, by name: SetMemory
	addresses    addresses
	images       map[string]*Image // by normalized name
	remotes      map[string]*Image // likewise; what PullImage finds
	scripts      map[string][]Behavior
	execs        map[string]func(cmd []string) *Exec
	runs         map[string]int // how often a container name has been started
	files        map[string][]byte
	conditions   []*runtimeapi.RuntimeCondition
	faults       []*fault
	calls        []*Call
	listeners    map[*listener]bool
	wires        []net.Conn // of Serve
	closed       bool

	busy sync.WaitGroup // processes, late effects and streams
}

// New makes a runtime with no sandbox, no container and no image. Close it, or
// its running containers stay (and a synctest bubble never ends).
func New(opts ...Option) *Runtime {
	rt := &Runtime{
		options: options{
			timeout:  2 * time.Minute,
			handlers: []*runtimeapi.RuntimeHandler{},
			ranges:   []netip.Prefix{netip.MustParsePrefix("127.88.0.0/16")},
		},
		names:      map[string]string{},
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		images:     map[string]*Image{},
		remotes:    map[string]*Image{},
		scripts:    map[string][]Behavior{},
		execs:      map[string]func([]string) *Exec{},
		runs:       map[string]int{},
		files:      map[string][]byte{},
		listeners:  map[*listener]bool{},
	}
	As(Containerd())(&rt.options)
	for _, o := range opts {
		o(&rt.options)
	}
	rt.AddImage(Image{Name: SandboxImage})
	rt.addresses = addresses{ranges: rt.options.ranges, taken: map[netip.Addr]bool{}}
	rt.conditions = []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}
	return rt
}

// ForTest is New, closed when the test ends; inside a synctest bubble that is
// before the bubble looks for goroutines left over.
func ForTest(t testing.TB, opts ...Option) *Runtime {
	t.Helper()
	rt := New(opts...)
	t.Cleanup(rt.Close)
	return rt
}

// Close ends every process, stream and late effect and waits for them. The
// records stay, so that Leaked can still be asked.
func (rt *Runtime) Close() {
	rt.mu.Lock()
	rt.closed = true
	for _, c := range rt.containers {
		if c.process != nil {
			c.process.end(exit{code: 137, reason: "Error"})
		}
	}
	for l := range rt.listeners {
		l.close()
	}
	for _, f := range rt.faults {
		f.abandon()
	}
	rt.mu.Unlock()
	rt.busy.Wait()
}

// now gives the time in ns, later than any time given before: two events of a
// bubble's one instant still have an order. rt.mu is held.
func (rt *Runtime) now() int64 {
	rt.clock = max(rt.clock+1, time.Now().Add(rt.ahead).UnixNano())
	return rt.clock
}

// SetClock makes the runtime's clock differ from the host's, as the times of before do
// after the host's clock was set.
func (rt *Runtime) SetClock(ahead time.Duration) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.ahead, rt.clock = ahead, 0
}

// newID makes a 64-character ID, the same in every run of a test and in no
// helpful order, as real ones. rt.mu is held.
func (rt *Runtime) newID(name string) string {
	rt.serial++
	return digest(fmt.Sprintf("%s/%d", name, rt.serial))
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// reserve books a name for an ID. rt.mu is held.
func (rt *Runtime) reserve(name, id string) error {
	if holder, taken := rt.names[name]; taken && holder != id {
		return fmt.Errorf("name %q is reserved for %q", name, holder)
	}
	rt.names[name] = id
	return nil
}
