package pods

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// TestAwaitCreated checks the results of 'wait --for=create' in virtual time: a pod that is created later, a pod that is
// not created before --timeout, and an error that does not mean that the pod does not exist.
func TestAwaitCreated(t *testing.T) {
	missing := fmt.Errorf("pod web: %w", problem.ErrNotFound)
	gone := errors.New("the runtime does not answer")
	for name, tc := range map[string]struct {
		after time.Duration // when the pod is created
		fails error         // what the first read returns
		want  error
	}{
		"exists":                 {0, nil, nil},
		"created later":          {time.Second, nil, nil},
		"not created in time":    {time.Minute, nil, &problem.Error{Kind: problem.Deadline}},
		"the runtime is stopped": {0, gone, gone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begun := time.Now()
				got, err := awaitCreated(ctx, "web", func() (string, error) {
					if tc.fails != nil || time.Since(begun) >= tc.after {
						return "found", tc.fails
					}
					return "", missing
				})
				var deadline *problem.Error
				switch {
				case tc.want == nil && (err != nil || got != "found" || time.Since(begun) > tc.after+createPoll):
					t.Errorf("%q, %v after %s", got, err, time.Since(begun))
				case tc.fails != nil && !errors.Is(err, tc.want):
					t.Errorf("error %v, want %v", err, tc.want)
				case tc.want != nil && tc.fails == nil && (!errors.As(err, &deadline) || deadline.Kind != problem.Deadline || err.Error() != "web: not created in time"):
					t.Errorf("error %v, want a deadline", err)
				}
			})
		})
	}
}
