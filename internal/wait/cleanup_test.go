package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCleanupContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		end()
		ctx, cancel := CleanupContext(parent, time.Minute)
		defer cancel()
		if ctx.Err() != nil || ctx.Value(key{}) != "value" {
			t.Errorf("error %v, value %v; want no error and the value of the parent", ctx.Err(), ctx.Value(key{}))
		}
		begun := time.Now()
		<-ctx.Done()
		if err := context.Cause(ctx); time.Since(begun) != time.Minute || !errors.Is(err, context.DeadlineExceeded) || err.Error() != "timed out after 1m0s" {
			t.Errorf("%v after %s, want the limit of 1m0s", err, time.Since(begun))
		}
	})
}
