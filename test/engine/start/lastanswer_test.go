package start

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestDeadlineNamesTheLastAnswer covers a command whose deadline expires while the runtime creates a
// container. If the runtime then returns an error, podrun must report that error, because it contains more
// information than the expired deadline. An error that only reports a canceled call contains no further
// information.
func TestDeadlineNamesTheLastAnswer(t *testing.T) {
	t.Parallel()
	full := status.Error(codes.Unknown, "failed to create containerd container: no space left on device")
	for _, test := range []struct {
		name, method string
		faults       []critest.Fault
		want         string
	}{
		{"create", "CreateContainer", []critest.Fault{{When: critest.Before, Err: full, Delay: time.Minute + 2*time.Second}}, "no space left on device"},
		{"start", "StartContainer", []critest.Fault{{When: critest.Before, Err: full, Delay: time.Minute + 2*time.Second}}, "no space left on device"},
		{"create hangs", "CreateContainer", []critest.Fault{{When: critest.Hang}}, ""},
		// The result of the first attempt was unknown, but the runtime had created the container.
		{"create again", "CreateContainer", []critest.Fault{
			{When: critest.After, Err: status.Error(codes.Unknown, `name "app_web" is reserved for "abc"`), Times: 1, Delay: 50 * time.Second},
			{When: critest.Hang},
		}, `is reserved for "abc"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				for _, f := range test.faults {
					defer r.Runtime.Fault(test.method, f)()
				}
				result := r.ApplyWithin(t.Context(), rig.PodText("web", "Always", "containers:", "- {name: app, image: registry.example/app:1}"), time.Minute)
				e, ok := errors.AsType[*problem.Error](result.Err)
				if !ok {
					t.Fatalf("%v", result.Err)
				}
				if e.Kind != problem.Deadline || !strings.Contains(e.Error(), test.want) || !strings.Contains(e.Error(), "timed out after 1m0s") {
					t.Errorf("%s: %v", e.Kind, e)
				}
				if test.want == "" && strings.Contains(e.Error(), "answer") {
					t.Errorf("the error has a response that the runtime did not send: %v", e)
				}
				r.MustDelete()
			})
		})
	}
}
