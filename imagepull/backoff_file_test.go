package imagepull

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestBackOffSurvivesItsProcess checks that a second process continues the back-off of the first
// one. If the image has been pulled in between, the second process must use the image immediately.
func TestBackOffSurvivesItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dir := newRegistry(), t.TempDir()
		r.pull = func(try int, _ *runtimeapi.PullImageRequest) error {
			if try < 3 {
				return status.Error(codes.Unknown, "connection refused")
			}
			return nil
		}
		plan := planOf(t, "containers:\n"+container("app", "app:1", "IfNotPresent"))
		o := Options{BackOffDir: dir}
		attempt := func(limit time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			begun := time.Now()
			pulls := r.puller(o).Start(ctx, plan)
			defer pulls.Stop()
			_, err := pulls.Wait(ctx, "app")
			return time.Since(begun), err
		}
		if _, err := attempt(4 * time.Second); err == nil || r.tries["app:1"] != 1 {
			t.Fatalf("%v after %v", err, r.tries)
		}
		if _, err := attempt(5 * time.Second); err == nil || r.tries["app:1"] != 1 || !strings.Contains(err.Error(), "a previous pull failed; the next attempt is in 6s") {
			t.Fatalf("%v after %v", err, r.tries)
		}
		if took, err := attempt(time.Minute); err != nil || r.tries["app:1"] != 3 || took != 21*time.Second {
			t.Fatalf("%v after %v and %s", err, r.tries, took)
		}
		if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) != 0 {
			t.Errorf("left: %v %v", left, err)
		}
		r.pull = func(int, *runtimeapi.PullImageRequest) error {
			return status.Error(codes.Unknown, "connection refused")
		}
		delete(r.here, "app:1")
		if _, err := attempt(time.Second); err == nil {
			t.Fatal("the image was pulled")
		}
		r.here["app:1"] = imageOf("app:1")
		if took, err := attempt(time.Second); err != nil || took != 0 {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestKeptBackOff checks that a stored back-off is used only if it belongs to this pod, is recent
// and is valid.
func TestKeptBackOff(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := backOffKey{UID: "u", Ref: "app:1"}
	for text, want := range map[string]time.Duration{
		`[{"ref":"app:1","delay":"40s","failed":"2026-01-02T03:04:00Z"}]`:  35 * time.Second,
		`[{"ref":"app:1","delay":"40s","failed":"2030-01-02T03:04:00Z"}]`:  40 * time.Second,
		`[{"ref":"app:1","delay":"40h","failed":"2026-01-02T03:04:00Z"}]`:  0,
		`[{"ref":"app:1","delay":"-1s","failed":"2026-01-02T03:04:00Z"}]`:  0,
		`[{"ref":"app:1","delay":"300s","failed":"2026-01-02T02:54:00Z"}]`: 0,
		`[{"ref":"app:2","delay":"40s","failed":"2026-01-02T03:04:00Z"}]`:  0,
		`[{"ref":"app:1"`: 0,
		``:                0,
	} {
		if err := os.WriteFile(filepath.Join(dir, "u.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var b backOff
		backOffDir{dir}.read(&b, "u", now)
		if got := b.Left(key, now); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	old := filepath.Join(dir, "old.json")
	if err := os.WriteFile(old, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, now, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	var b backOff
	b.Fail(key, why{}, 0, now)
	if err := (backOffDir{dir}).write(&b, "u", now); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(dir + "/*"); len(files) != 1 || files[0] != filepath.Join(dir, "u.json") {
		t.Errorf("%v", files)
	}
}

// TestReadFailures (conformance C7) checks that another process can show why the containers of a
// pod wait for their images.
func TestReadFailures(t *testing.T) {
	dir := t.TempDir()
	p := newRegistry().puller(Options{BackOffDir: dir})
	key := backOffKey{UID: "u", Ref: "docker.io/library/app:1"}
	image := Image{Name: "app:1", Ref: key.Ref, Containers: []Container{{Name: "a"}, {Name: "b"}}}
	p.fail(key, image, &PullError{Image: "app:1", Reason: ReasonPull, Class: Transient, Err: errors.New("no route to host")})
	now := time.Now()
	waiting := ReadFailures(dir, "u", now)
	want := Failure{Reason: ReasonBackOff, Message: `Back-off pulling image "app:1": ErrImagePull: no route to host`}
	for _, name := range []string{"a", "b"} {
		got := waiting[name]
		if got.Reason != want.Reason || got.Message != want.Message || now.Sub(got.At).Abs() > time.Minute {
			t.Errorf("container %s: %+v, want %+v", name, got, want)
		}
	}
	if got := ReadFailures(dir, "u", now.Add(time.Minute))["a"]; got.Reason != ReasonPull || got.Message != "no route to host" {
		t.Errorf("after the back-off: %+v", got)
	}
	for name, got := range map[string]map[string]Failure{
		"after a time without an attempt": ReadFailures(dir, "u", now.Add(time.Hour)),
		"of another pod":                  ReadFailures(dir, "v", now),
		"without a directory":             ReadFailures("", "u", now),
	} {
		if len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	p.succeed(key)
	if got := ReadFailures(dir, "u", now); len(got) != 0 {
		t.Errorf("after the pull: %v", got)
	}
}
