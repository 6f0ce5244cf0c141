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

// Await makes a system call on path to which a network file system may never respond if
// its server is unreachable, and stops waiting a second after the end of the context. The
// call then continues: it must be harmless whenever it completes. The error is the
// call's, or wraps the context's cause.
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
