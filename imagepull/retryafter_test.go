package imagepull

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestRetryAfter(t *testing.T) {
	const many = `failed to copy: httpReadSeeker: failed open: unexpected status code https://ghcr.io/v2/a/b/manifests/1: 429 Too Many Requests - Server message: `
	for text, want := range map[string]time.Duration{
		many + `toomanyrequests: retry-after: 90s, allowed: 44000/minute`:       90 * time.Second,
		many + `toomanyrequests: retry-after: 358.521µs, allowed: 44000/minute`: 358521 * time.Nanosecond,
		many + `toomanyrequests: Retry-After: 120`:                              2 * time.Minute,
		many + `toomanyrequests: Retry-After: 120.`:                             2 * time.Minute,
		many + `Retry-After: Fri, 02 Jan 2026 03:05:05 GMT`:                     time.Minute,
		many + `retry-after: 4294967295`:                                        5 * time.Minute,
		many + `retry-after: -5`:                                                0,
		many + `retry-after: soon`:                                              0,
		// in quotes, so it may be the name of an image
		`pinging container registry r.example: 503 Service Unavailable: "Retry-After: 30"`:        0,
		`pinging container registry r.example: 503 Service Unavailable: Retry-After=30`:           30 * time.Second,
		`unexpected status from HEAD request to http://r/v2/retry-after: 60/manifests/1: 404`:     0,
		`failed to pull image "r/429:retry-after: 60": not found`:                                 0,
		`unexpected status from HEAD request to http://r/v2/x/manifests/1: 429 Too Many Requests`: 0,
		`toomanyrequests: You have reached your pull rate limit. See the page about rate limits.`: 0,
	} {
		if got := retryAfter(text, begun); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestPullWaitsAsTheRegistryAsks checks that if a registry requests a longer delay than the
// back-off, podrun waits as requested and shows the delay in an event. The next back-off must not
// change. If the registry requests a shorter delay, the back-off must apply.
func TestPullWaitsAsTheRegistryAsks(t *testing.T) {
	for asked, want := range map[string]time.Duration{"2m": 2*time.Minute + 20*time.Second, "5ms": 30 * time.Second, "9h": 5*time.Minute + 20*time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.pull = func(try int, _ *runtimeapi.PullImageRequest) error {
				switch try {
				case 1:
					return status.Error(codes.Unknown, "429 Too Many Requests - Server message: toomanyrequests: retry-after: "+asked+", allowed: 3/minute")
				case 2:
					return errors.New("connection reset by peer")
				}
				return nil
			}
			begun := time.Now()
			pulls := r.puller(Options{BackOffDir: t.TempDir()}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
			if _, err := pulls.Wait(t.Context(), "app"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("%s: took %v, want %v", asked, took, want)
			}
			shown := strings.Contains(strings.Join(r.events, "\n"), "; the registry asks to retry after")
			if shown != (asked != "5ms") {
				t.Errorf("%s: %s", asked, strings.Join(r.events, "\n"))
			}
		})
	}
}

// TestRetryAfterIsRemembered checks that the next process also observes a delay that a registry
// requested.
func TestRetryAfterIsRemembered(t *testing.T) {
	dir := t.TempDir()
	key := backOffKey{UID: "u", Ref: "docker.io/library/app:1"}
	p := newRegistry().puller(Options{BackOffDir: dir})
	p.fail(key, Image{Name: "app:1", Ref: key.Ref}, &PullError{Image: "app:1", Reason: ReasonPull, Class: Transient, Err: errors.New("429 Too Many Requests: Retry-After: 240")})
	if left := newRegistry().puller(Options{BackOffDir: dir}).left(key); left < 3*time.Minute || left > 4*time.Minute {
		t.Errorf("%v is left", left)
	}
}
