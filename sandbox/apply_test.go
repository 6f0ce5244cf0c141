package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// planIn returns the plan of a sandbox whose log directory is in the test's directory.
func planIn(t *testing.T, change func(*Input)) Plan {
	t.Helper()
	in := input()
	in.Layout.PodLogsDir = t.TempDir()
	if change != nil {
		change(&in)
	}
	p, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

var errDeadline = status.Error(codes.DeadlineExceeded, "context deadline exceeded")

func TestApply(t *testing.T) {
	f := &fakeRuntime{}
	p := planIn(t, func(in *Input) { in.Handler = "kata" })
	got, err := Apply(t.Context(), f.client(t), p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Sandbox{ID: "s0", IPs: []string{"10.1.0.5", "fd00::5"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if info, err := os.Stat(p.Config.LogDirectory); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("log directory: %v, %v", info, err)
	}
	if diff := cmp.Diff([]string{"kata"}, f.handlers); diff != "" {
		t.Errorf("handlers: %s", diff)
	}
}

func TestApplyHostNetworkHasNoIPs(t *testing.T) {
	p := planIn(t, func(in *Input) { in.Pod.Spec.HostNetwork = true })
	got, err := Apply(t.Context(), (&fakeRuntime{}).client(t), p)
	if err != nil || len(got.IPs) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestApplyWithoutIPKeepsTheID(t *testing.T) {
	got, err := Apply(t.Context(), (&fakeRuntime{noIP: true}).client(t), planIn(t, nil))
	if err == nil || !strings.Contains(err.Error(), "CNI") || got.ID != "s0" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestApplyErrorNamesThePod(t *testing.T) {
	_, err := Apply(t.Context(), (&fakeRuntime{runError: errDeadline}).client(t), planIn(t, nil))
	var e *problem.Error
	if !errors.As(err, &e) || e.Kind != problem.Runtime || !strings.Contains(err.Error(), "pod default/web: create sandbox") {
		t.Errorf("got %v", err)
	}
	if !InDoubt(err) {
		t.Error("a call that took too long is in doubt")
	}
}

// TestRecoverFindsWhatATimedOutCallMade covers containerd issues 9947 and 12438: the runtime
// creates the sandbox after the call has timed out. podrun must find the sandbox without an ID, and
// must not use its name again.
func TestRecoverFindsWhatATimedOutCallMade(t *testing.T) {
	f := &fakeRuntime{runError: errDeadline, makesAnyway: true}
	p := planIn(t, nil)
	_, cause := Apply(t.Context(), f.client(t), p)
	if len(f.sandboxes) != 1 {
		t.Fatal("the fake should have made a sandbox")
	}
	attempt, err := Recover(t.Context(), f.client(t), p, cause)
	if err != nil || attempt != 1 {
		t.Errorf("attempt %d, %v; want 1", attempt, err)
	}
	if len(f.sandboxes) != 0 {
		t.Errorf("left: %v", f.ids())
	}
}

func TestRecoverAttempts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cause error
		want  uint32
	}{
		// If podrun repeats the same request, CRI-O returns the sandbox that it finished too late
		// (test/timeout.bats).
		{"nothing made: the same request again", errDeadline, 0},
		{"name held by a sandbox that is not listed", errors.New(`failed to reserve sandbox name "web_default_u_0": name "web_default_u_0" is reserved for "abc"`), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Recover(t.Context(), (&fakeRuntime{}).client(t), planIn(t, nil), fmt.Errorf("wrapped: %w", tt.cause))
			if err != nil || got != tt.want {
				t.Errorf("got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestInDoubt(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("create: %w", errDeadline), true},
		{fmt.Errorf("create: %w", context.DeadlineExceeded), true},
		{status.Error(codes.Unknown, `failed to reserve sandbox name "x": name "x" is reserved for "y"`), true},
		{errors.New("reserve pod name: name is reserved"), true}, // CRI-O
		{status.Error(codes.Unknown, "cni plugin not initialized"), false},
		{nil, false},
	} {
		if got := InDoubt(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}

// TestRemoveHitsOnlyItsOwn checks that the undo step removes only the sandbox of its own plan.
func TestRemoveHitsOnlyItsOwn(t *testing.T) {
	f := &fakeRuntime{}
	mine := planIn(t, nil)
	others := []Plan{
		planIn(t, func(in *Input) { in.Attempt = 1 }),
		planIn(t, func(in *Input) { in.Invocation = "another" }),
		planIn(t, func(in *Input) { in.ID.UID = "v" }),
		planIn(t, nil),
	}
	// A kubelet created this sandbox.
	delete(others[3].Config.Annotations, identity.AnnotationManagedBy)
	for _, p := range append(others, mine) {
		if _, err := Apply(t.Context(), f.client(t), p); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // Remove is idempotent
		if err := Remove(t.Context(), f.client(t), mine); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"s0", "s1", "s2", "s3"}, f.ids()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRemoveReportsWhatStays(t *testing.T) {
	f := &fakeRuntime{stopError: map[string]error{"s0": errors.New("cni: plugin failed")}}
	p := planIn(t, nil)
	if _, err := Apply(t.Context(), f.client(t), p); err != nil {
		t.Fatal(err)
	}
	err := Remove(t.Context(), f.client(t), p)
	if err == nil || !strings.Contains(err.Error(), "sandbox s0 was not removed: stop: cni: plugin failed") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"s0"}, Unstopped(err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(f.sandboxes) != 1 {
		t.Error("a sandbox that could not be stopped must not be removed: its address would leak")
	}
}
