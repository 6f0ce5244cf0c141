package critest

import (
	"context"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// When is whether a fault comes before or after the effect of the call.
type When int

const (
	// Before fails the call with no effect.
	Before When = iota
	// After lets it take effect and fails it then, with DeadlineExceeded unless
	// Err says otherwise: what a runtime does that finished too late.
	After
	// Hang has no effect, and no answer until the caller gives up.
	Hang
	// EffectThenHang takes effect, and gives no answer until the caller gives up.
	EffectThenHang
	// Slow waits for Delay and then works.
	Slow
	// Late works after Delay whether or not the caller still waits, as a runtime
	// does that goes on after its client's deadline
	// (https://github.com/containerd/containerd/issues/12438).
	Late
	// Cut takes effect; then all connections of Serve break, and no answer comes.
	Cut
	// Stale answers ListPodSandbox and ListContainers with what there was when the
	// fault was set.
	Stale
	// AlreadyEnded answers StopContainer with success and without effect, as containerd
	// 1.6 does if the task has ended and the container is not yet recorded as exited.
	AlreadyEnded
)

// Fault is what goes wrong with calls of a method.
type Fault struct {
	When  When
	Err   error                        // of Before and After; nil is Unavailable and DeadlineExceeded
	Delay time.Duration                // waited first, whatever When is
	Times int                          // how many calls it hits; 0 is all
	Skip  int                          // how many matching calls go well first
	Match func(req proto.Message) bool // nil hits every call
	Done  func()                       // called after the effect of Late and of EffectThenHang, also if that is an error; nil for not
}

// fault is one that was set; the runtime's lock guards it.
type fault struct {
	Fault
	method  string
	hit     int
	skipped int
	stops   []context.CancelFunc // of late effects
	stale   *records             // of Stale
}

func (f *fault) abandon() {
	for _, stop := range f.stops {
		stop()
	}
}

// Fault makes calls of a method ("RunPodSandbox") go wrong until clear is
// called. Of several faults the first set that hits is played.
func (rt *Runtime) Fault(method string, f Fault) (clear func()) {
	set := &fault{Fault: f, method: method}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if f.When == Stale {
		set.stale = rt.records()
	}
	rt.faults = append(rt.faults, set)
	return func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		set.Times, set.hit = 1, 1
	}
}

// strike finds the fault that a call runs into. rt.mu is held.
func (rt *Runtime) strike(method string, req proto.Message) *fault {
	for _, f := range rt.faults {
		if f.method != method || f.Times > 0 && f.hit >= f.Times || f.Match != nil && !f.Match(req) {
			continue
		}
		if f.skipped < f.Skip {
			f.skipped++
			continue
		}
		f.hit++
		return f
	}
	return nil
}

// strikeStream finds the fault that a stream runs into: GetContainerEvents, or what an
// URL of Exec and Attach is for.
func (rt *Runtime) strikeStream(method string) *fault {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.strike(method, nil)
}

// before plays what a fault does before a stream begins. The error ends it; f may be nil.
func (f *fault) before(ctx context.Context) error {
	if f == nil {
		return nil
	}
	if err := wait(ctx, f.Delay); err != nil {
		return err
	}
	switch f.When {
	case Before:
		return f.failure(codes.Unavailable, "fault injected")
	case Hang:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// gateStream is what every stream over a socket passes, as a gRPC interceptor.
func (rt *Runtime) gateStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	f := rt.strikeStream(path.Base(info.FullMethod))
	if err := f.before(stream.Context()); err != nil {
		return asStatus(err)
	}
	switch {
	case f != nil && f.When == Cut:
		rt.cut()
	case f != nil && f.When == After:
		return f.failure(codes.DeadlineExceeded, "fault injected")
	}
	return handle(srv, stream)
}

// play does a call as a fault has it.
func (rt *Runtime) play(ctx context.Context, f *fault, req proto.Message, do func(context.Context) (any, error)) (any, error) {
	if f.When == Late {
		return rt.late(ctx, f, do)
	}
	if err := wait(ctx, f.Delay); err != nil {
		return nil, err
	}
	switch f.When {
	case Before:
		return nil, f.failure(codes.Unavailable, "fault injected")
	case Slow:
		return do(ctx)
	case Stale:
		return f.stale.list(req)
	case AlreadyEnded:
		return &runtimeapi.StopContainerResponse{}, nil
	case Hang:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := do(ctx)
	if f.When == EffectThenHang && f.Done != nil {
		f.Done()
	}
	if err != nil {
		return nil, err
	}
	switch f.When {
	case EffectThenHang:
		<-ctx.Done()
		return nil, ctx.Err()
	case Cut:
		rt.cut()
		return nil, f.failure(codes.Unavailable, "error reading from server: EOF")
	}
	return nil, f.failure(codes.DeadlineExceeded, "context deadline exceeded")
}

func (f *fault) failure(code codes.Code, text string) error {
	if f.Err != nil {
		return f.Err
	}
	return status.Error(code, text)
}

// late does the call in its own time.
func (rt *Runtime) late(ctx context.Context, f *fault, do func(context.Context) (any, error)) (any, error) {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		stop()
		return nil, status.Error(codes.Unavailable, "the runtime is closed")
	}
	f.stops = append(f.stops, stop)
	var resp any
	var err error
	done := make(chan struct{})
	rt.busy.Go(func() {
		defer close(done)
		defer stop()
		if err = wait(own, f.Delay); err == nil {
			if resp, err = do(own); f.Done != nil {
				f.Done()
			}
		}
	})
	rt.mu.Unlock()
	select {
	case <-done:
		return resp, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
