package start

import (
	"context"

	"github.com/podrun/podrun/run/lifecycle"
)

// step is a step of a start. Its undo is registered before do is called, because a call that fails
// may have had an effect. undo is nil if there is nothing to undo, or if do registers the undo
// itself.
type step[T any] struct {
	name string // the name of the undo step, for errors
	do   func(*Starter, context.Context, T) error
	undo func(*Starter, context.Context, T) error
}

// run executes the steps in order until one fails.
func run[T any](ctx context.Context, st *Starter, steps []step[T], arg T) error {
	for _, s := range steps {
		if s.undo != nil {
			st.lease.Undo.Push(s.name, func(ctx context.Context) error { return s.undo(st, ctx, arg) })
		}
		if err := s.do(st, ctx, arg); err != nil {
			return err
		}
	}
	return nil
}

// Sandbox creates the pod's cgroups, sandbox and volumes.
func (st *Starter) Sandbox(ctx context.Context, a lifecycle.Action) error {
	return run(ctx, st, sandboxSteps, &newSandbox{attempt: a.Attempt})
}

// Containers starts one container, or several in parallel. It first creates all of them concurrently, and then
// starts all of them concurrently. The argument next is the container to create while they start, or nil if
// there is none. The caller must then start that container with the next call, or call Ahead.Drop. Containers
// returns an error only if it is interrupted. If a container fails, Containers records the error in Failures,
// and failed contains the container's name, unless the next pass repeats the start (Repeats).
func (st *Starter) Containers(ctx context.Context, next *lifecycle.Action, actions ...lifecycle.Action) (failed []string, err error) {
	b := &batch{actions: actions, next: next}
	err = run(ctx, st, containerSteps, b)
	for _, s := range b.all {
		if s.err != nil && !s.repeats {
			b.failed = append(b.failed, s.action.Container)
		}
	}
	return b.failed, err
}
