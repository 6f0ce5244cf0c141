package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestUndoRunsBackwardsPastErrors(t *testing.T) {
	var u Undo
	var done []string
	step := func(name string, err error) {
		u.Push(name, func(context.Context) error { done = append(done, name); return err })
	}
	first, third := errors.New("busy"), errors.New("gone wrong")
	step("one", first)
	step("two", nil)
	step("three", third)
	err := u.Run(t.Context())
	if want := []string{"three", "two", "one"}; !slices.Equal(done, want) {
		t.Errorf("%v, want %v", done, want)
	}
	if !errors.Is(err, first) || !errors.Is(err, third) {
		t.Errorf("an error is missing: %v", err)
	}
	if want := "three: gone wrong\none: busy"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if err := u.Run(t.Context()); err != nil || len(done) != 3 || !u.Empty() {
		t.Errorf("a second run did something: %v, %v", err, done)
	}
}

func TestUndoForgets(t *testing.T) {
	var u Undo
	if !u.Empty() {
		t.Error("a new one is not empty")
	}
	u.Push("one", func(context.Context) error { return errors.New("was done") })
	if u.Empty() {
		t.Error("empty with a step")
	}
	u.Forget()
	if err := u.Run(t.Context()); err != nil || !u.Empty() {
		t.Errorf("%v", err)
	}
}

// TestUndoHasTimeOfItsOwn checks that Run uses a separate context, because the end of the caller's
// context is often the reason for the rollback.
func TestUndoHasTimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var u Undo
		var last error
		u.Push("after", func(ctx context.Context) error { last = ctx.Err(); return nil })
		u.Push("hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		u.Push("works", func(ctx context.Context) error { return ctx.Err() })
		begun := time.Now()
		err := u.Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || err.Error() != "hangs: context deadline exceeded" {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took != UndoTimeout {
			t.Errorf("took %s", took)
		}
		if last == nil {
			t.Error("the last step had no time limit")
		}
	})
}
