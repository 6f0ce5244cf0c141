package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/wait"
)

// UndoTimeout limits the duration of a whole rollback.
const UndoTimeout = 30 * time.Second

// Undo is the list of undo steps. A step is registered before the call that it undoes, because a call
// that returns an error may have taken effect. Therefore every step is idempotent and uses identifiers
// from the plan.
type Undo struct {
	mu    sync.Mutex
	steps []undoStep
	off   bool // discards every step: a supervisor retries forever and never rolls back
}

type undoStep struct {
	name string
	do   func(context.Context) error
}

// Push registers a step; its name is used in errors.
func (u *Undo) Push(name string, do func(context.Context) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.off {
		return
	}
	u.steps = append(u.steps, undoStep{name, do})
}

// Disable discards all steps, including those that are pushed later.
func (u *Undo) Disable() {
	u.Forget()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.off = true
}

// Forget discards all steps: the created objects are kept.
func (u *Undo) Forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.steps = nil
}

// Empty reports whether Undo contains no steps.
func (u *Undo) Empty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.steps) == 0
}

// Run executes all steps in reverse order. It uses a separate context, because the end of the caller's
// context is often the reason for the rollback. It continues after errors and returns all of them; each
// names an object that was not removed.
func (u *Undo) Run(ctx context.Context) error {
	u.mu.Lock()
	steps := u.steps
	u.steps = nil
	u.mu.Unlock()
	ctx, cancel := wait.CleanupContext(ctx, UndoTimeout)
	defer cancel()
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		if err := steps[i].do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", steps[i].name, err))
		}
	}
	return errors.Join(errs...)
}
