// Package critest is a small container runtime for tests. Its Runtime implements the Container
// Runtime Interface like containerd 1.6, or like the runtime that a profile describes (profile.go).
// Sandboxes and containers have the same states, names are reserved, and containers run, write logs
// and exit by themselves. It changes nothing on the host except log files and the files in a
// container's mounts.
//
// There are two ways to connect to it. Client calls the runtime as Go functions. Therefore, a wait
// of ten minutes takes no time in a test inside testing/synctest. Serve makes the runtime available
// on a unix socket to a program under test. Both use the same interceptor (gate.go), which records
// the call and applies the faults that the test has set (fault.go).
//
// A container runs a Behavior that the test has set (behavior.go). Otherwise, a small shell
// (package ash) interprets the container's command.
package critest

import (
	"context"
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

// Runtime is the fake runtime. Its methods with names of the CRI are the services. If a test calls
// them directly, the calls bypass the interceptor, so that they are not recorded and have no
// faults.
type Runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	options options

	mu sync.Mutex // protects all fields below
	// last result of now, in ns
	clock        int64
	ahead        time.Duration // set by SetClock
	serial       int           // number for the next ID
	names        map[string]string
	sandboxes    map[string]*sandbox
	sandboxTasks map[string]bool // set by LeaveSandboxTask
	containers   map[string]*container
	// records that clients have created with containerd's own service
	created   map[string]*containersapi.Container
	memory    map[string]uint64 // memory usage by container name; see SetMemory
	addresses addresses
	images    map[string]*Image // images by normalized name
	// the images that PullImage finds, by name and also by normalized name
	remotes    map[string]*Image
	scripts    map[string][]Behavior
	execs      map[string]func(cmd []string) *Exec
	runs       map[string]int // number of starts by container name
	files      map[string][]byte
	conditions []*runtimeapi.RuntimeCondition
	faults     []*fault
	calls      []*Call
	listeners  map[*listener]bool
	wires      []net.Conn // open connections of Serve
	closed     bool
	closing    context.Context // context that ends when the runtime is closed
	endStreams context.CancelFunc

	busy sync.WaitGroup // counts processes, late effects and streams
}

// New returns a runtime without sandboxes, containers or images. The caller must close it.
// Otherwise, the goroutines of its running containers remain, and a synctest bubble never ends.
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
	rt.closing, rt.endStreams = context.WithCancel(context.Background())
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

// ForTest calls New, and closes the runtime when the test ends. In a synctest bubble, a test's cleanups run before
// the bubble checks for goroutines that remain.
func ForTest(t testing.TB, opts ...Option) *Runtime {
	t.Helper()
	rt := New(opts...)
	t.Cleanup(rt.Close)
	return rt
}

// Close ends every process and stream, cancels the calls that a Late fault still delays, and waits
// until all of them have ended. The records remain, so that a test can still call Leaked.
func (rt *Runtime) Close() {
	rt.mu.Lock()
	rt.closed = true
	rt.endStreams()
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

// now returns the time in ns. Each result is later than the previous one, so that events at the
// same instant of a bubble have an order. The caller must hold rt.mu.
func (rt *Runtime) now() int64 {
	rt.clock = max(rt.clock+1, time.Now().Add(rt.ahead).UnixNano())
	return rt.clock
}

// SetClock makes the runtime's clock differ from the host's. Its timestamps then look like
// timestamps from before the host's clock was set.
func (rt *Runtime) SetClock(ahead time.Duration) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.ahead, rt.clock = ahead, 0
}

// newID returns an ID of 64 characters, which is the same in every run of a test. As with real IDs,
// the order of IDs has no meaning. The caller must hold rt.mu.
func (rt *Runtime) newID(name string) string {
	rt.serial++
	return digest(fmt.Sprintf("%s/%d", name, rt.serial))
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// reserve reserves a name for an ID. The caller must hold rt.mu.
func (rt *Runtime) reserve(name, id string) error {
	if holder, taken := rt.names[name]; taken && holder != id {
		return fmt.Errorf("name %q is reserved for %q", name, holder)
	}
	rt.names[name] = id
	return nil
}
