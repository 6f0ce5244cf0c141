package critest

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// When specifies whether a fault occurs before or after the effect of a call.
type When int

const (
	// Before fails the call without an effect.
	Before When = iota
	// After performs the call and then makes it fail, with DeadlineExceeded unless Err is set, like
	// a runtime that finishes too late.
	After
	// Hang makes the call hang, without an effect, until the caller gives up.
	Hang
	// EffectThenHang performs the call, which then hangs until the caller gives up.
	EffectThenHang
	// Slow waits for Delay and then performs the call.
	Slow
	// Late performs the call after Delay even if the caller has given up. This is like a runtime
	// that continues after its client's deadline
	// (https://github.com/containerd/containerd/issues/12438).
	Late
	// Cut performs the call. Then all connections of Serve break, and the caller gets no response.
	Cut
	// Stale makes ListPodSandbox and ListContainers return the state that the runtime had when the
	// fault was set.
	Stale
	// AlreadyEnded makes StopContainer succeed without an effect, like containerd 1.6 if the task
	// has exited but containerd has not recorded the container's exit yet.
	AlreadyEnded
)

// Fault makes calls of a method fail.
type Fault struct {
	When When
	// error for Before and After; nil means Unavailable or DeadlineExceeded
	Err   error
	Delay time.Duration                // delay before any effect, for each value of When
	Times int                          // number of calls that the fault affects; 0 means all
	Skip  int                          // number of matching calls that succeed before the first fault
	Match func(req proto.Message) bool // nil matches every call; it may use the runtime, but not call the same method
	// if not nil, the delay of Late begins when it is closed
	Gate <-chan struct{}
	// if not nil, it is called after Late or EffectThenHang has performed the call, even if the call
	// failed
	Done func()
}

// fault is an active fault. The runtime's lock protects it.
type fault struct {
	Fault
	matching sync.Mutex // held while Match runs, instead of the runtime's lock
	method   string
	hit      int
	cleared  bool
	skipped  int
	stops    []context.CancelFunc // functions that cancel late effects
	stale    *records             // state for Stale
}

func (f *fault) abandon() {
	for _, stop := range f.stops {
		stop()
	}
}

// Fault makes calls of a method ("RunPodSandbox") fail until clear is called. If several
// faults match a call, the one that was set first applies.
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
		set.cleared = true
	}
}

// matches reports whether the fault may affect a call with this request.
func (f *fault) matches(req proto.Message) bool {
	if f.Match == nil {
		return true
	}
	f.matching.Lock()
	defer f.matching.Unlock()
	return f.Match(req)
}

// spent reports whether the fault has affected as many calls as it may. The caller must hold the runtime's lock.
func (f *fault) spent() bool { return f.Times > 0 && f.hit >= f.Times }

// strike returns the fault that applies to a call, or nil. It calls Match without the lock, because Match may use
// the runtime. A fault that is cleared after it has matched still applies: Match may end the process that clears it.
func (rt *Runtime) strike(method string, req proto.Message) *fault {
	rt.mu.Lock()
	matching := slices.DeleteFunc(slices.Clone(rt.faults), func(f *fault) bool { return f.method != method || f.cleared || f.spent() })
	rt.mu.Unlock()
	matching = slices.DeleteFunc(matching, func(f *fault) bool { return !f.matches(req) })
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, f := range matching {
		if f.spent() {
			continue // since then, for another call
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

// strikeStream returns the fault that applies to a stream. The stream is that of
// GetContainerEvents, or of a URL that Exec or Attach returned.
func (rt *Runtime) strikeStream(method string) *fault { return rt.strike(method, nil) }

// before applies the part of a fault that precedes a stream. If it returns an error, the caller must end the stream.
// f may be nil.
func (f *fault) before(ctx context.Context) error {
	if f == nil {
		return nil
	}
	if err := delay(ctx, f.Delay); err != nil {
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

// gateStream is the gRPC interceptor of all streams over a socket.
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

// play performs a call with a fault.
func (rt *Runtime) play(ctx context.Context, f *fault, req proto.Message, do func(context.Context) (any, error)) (any, error) {
	if f.When == Late {
		return rt.late(ctx, f, do)
	}
	if err := delay(ctx, f.Delay); err != nil {
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

// late performs the call after the delay, independently of its caller.
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
		if err = f.await(own); err == nil {
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

// await waits for the gate and the delay of a Late fault.
func (f *fault) await(ctx context.Context) error {
	if f.Gate != nil {
		select {
		case <-f.Gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return delay(ctx, f.Delay)
}

func delay(ctx context.Context, d time.Duration) error {
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
