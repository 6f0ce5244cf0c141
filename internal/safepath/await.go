package safepath

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// awaitAfter is the time for which Await waits for a system call after its context has ended. If
// the file system responds, a call usually completes within this time.
const awaitAfter = time.Second

// Await makes a system call on path. The call may never return if path is on a network file system
// whose server is unreachable. Await stops waiting a second after the context has ended. The call
// then continues in the background, so the caller must use Await only for calls that are harmless
// even if they complete later. The error is the call's, or wraps the context's cause.
func Await[T any](ctx context.Context, path string, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := call()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(awaitAfter)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.value, a.err
	case <-timer.C:
		var none T
		return none, fmt.Errorf("the file system of %s does not answer: %w", path, context.Cause(ctx))
	}
}

// Stat is like os.Stat, but stops waiting after ctx is done (see Await). It follows symlinks.
func Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return Await(ctx, path, func() (fs.FileInfo, error) { return os.Stat(path) })
}
