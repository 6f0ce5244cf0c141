package imagepull

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
)

// TestFirstFailureIsReported checks that the first failure of a pull causes one warning for each
// image. The warning must contain the time limit, the next attempt and an alternative.
func TestFirstFailureIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.pull = func(int, *runtimeapi.PullImageRequest) error {
			return status.Error(codes.Unknown, `failed to pull and unpack image "docker.io/library/app:1": dial tcp 127.0.0.1:1: connect: connection refused`)
		}
		for _, tc := range []struct {
			name           string
			timeout, pulls time.Duration
			limit          string
		}{
			{"--timeout", 10 * time.Minute, 0, "for 10m0s"},
			{"--pull-timeout", 10 * time.Minute, time.Minute, "for 1m0s"},
			{"no limit", 0, 0, "without a time limit"},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if tc.timeout > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), tc.timeout)
			}
			var mu sync.Mutex
			var warned problem.List
			pulls := r.puller(Options{Timeout: tc.pulls, Warn: func(l problem.List) {
				mu.Lock()
				defer mu.Unlock()
				warned = append(warned, l...)
			}}).Start(ctx, planOf(t, "containers:\n"+container("app", "app:1", "IfNotPresent")+container("b", "app:1", "IfNotPresent")))
			time.Sleep(45 * time.Second) // time for two further attempts
			cancel()
			pulls.Stop()
			if len(warned) != 1 {
				t.Fatalf("%s: %d warnings: %v", tc.name, len(warned), warned)
			}
			want := `pod default/images: container app: image "app:1": ImagePullBackOff: dial tcp 127.0.0.1:1: connect: connection refused; podrun retries ` + tc.limit + `, next in 10s`
			if got := warned[0]; got.Object+": "+got.Message != want || !got.Warning || !strings.Contains(got.Hint, "'podrun image load FILE'") {
				t.Errorf("%s: %+v, want %s", tc.name, got, want)
			}
		}
	})
}

// TestImageIsPresent checks the hint if a pull fails although the image is on this host, either under
// podman's name or with the pull policy Always. The hint must name the image that is present.
func TestImageIsPresent(t *testing.T) {
	for _, tc := range []struct{ name, image, policy, present, hint string }{
		{"podman save", "app:1", "IfNotPresent", "localhost/app:1", "set image: localhost/app:1"},
		{"podman save, no tag", "app", "Always", "localhost/app:latest", "set image: localhost/app:latest and imagePullPolicy: IfNotPresent"},
		{"podman save, Never", "team/app:1", "Never", "localhost/team/app:1", "set image: localhost/team/app:1"},
		{"Always", "r.example/app", "Always", "r.example/app:latest", "set imagePullPolicy: IfNotPresent"},
		{"localhost, Always", "localhost/app", "Always", "localhost/app:latest", "set imagePullPolicy: IfNotPresent"},
		{"another registry", "r.example/app:1", "IfNotPresent", "localhost/app:1", "check the image's name and tag"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry(tc.present)
				r.pull = func(int, *runtimeapi.PullImageRequest) error { return status.Error(codes.NotFound, "not found") }
				pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "containers:\n"+container("app", tc.image, tc.policy)))
				_, err := pulls.Wait(t.Context(), "app")
				pulls.Stop()
				e, ok := errors.AsType[*problem.Error](err)
				if !ok || !strings.Contains(e.Hint, tc.hint) {
					t.Errorf("%+v, want the hint %q", err, tc.hint)
				}
			})
		})
	}
}
