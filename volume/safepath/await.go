package safepath

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// awaitAfter is how long a system call may still take when its context has
// ended: those that are answered at all are within it.
const awaitAfter = time.Second

// Await makes a system call on path that a network file system whose server is
// gone may never answer, and ends the wait a second after the context. Then the
// call itself goes on: it must do no harm whenever it is answered. The error is
// the call's, or wraps the context's cause.
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

// Stat is os.Stat that ends with the context. It follows symlinks.
func Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return Await(ctx, path, func() (fs.FileInfo, error) { return os.Stat(path) })
}
