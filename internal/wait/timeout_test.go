package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// TestTimeoutNamesTheWholeLimit checks that a command that has already used part of its --timeout
// gets only the rest, and that its error names the whole --timeout.
func TestTimeoutNamesTheWholeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, cancel := WithRest(t.Context(), 8*time.Second, 70*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		if took := time.Since(begun); took != 7930*time.Millisecond {
			t.Errorf("it ended after %s", took)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, problem.TimeoutError{After: 8 * time.Second}) {
			t.Errorf("the cause is %v", cause)
		}
	})
}
