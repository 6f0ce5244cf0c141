package nodeapi

import (
	"context"
	"sync"
	"time"
)

// sharedAge is the maximum age of a response that the server returns to another request.
const sharedAge = time.Second

// share returns a function that returns the result of read. Concurrent callers share one result, so
// that many clients cause only one call to the runtime. If the request that caused the call ends,
// read continues.
func share[T any](age time.Duration, read func(context.Context) (T, error)) func(context.Context) (T, error) {
	type answer struct {
		done  chan struct{}
		value T
		err   error
		at    time.Time // set before done is closed
	}
	var mu sync.Mutex
	var last *answer
	return func(ctx context.Context) (T, error) {
		mu.Lock()
		a := last
		if a != nil {
			select {
			case <-a.done:
				if a.err != nil || time.Since(a.at) > age {
					a = nil
				}
			default:
			}
		}
		if a == nil {
			a = &answer{done: make(chan struct{})}
			last = a
			go func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
				defer cancel()
				a.value, a.err = read(ctx)
				a.at = time.Now()
				close(a.done)
			}()
		}
		mu.Unlock()
		select {
		case <-a.done:
			return a.value, a.err
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
	}
}
