package start

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestApplyOneImageFails checks that podrun starts the other containers if the image of one container is not
// available.
func TestApplyOneImageFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := rig.PodText("web", "Always", "containers:", "- {name: first, image: registry.example/app:1}", "- {name: bad, image: registry.example/absent:1}",
		"- {name: third, image: registry.example/web:1}")
	result := r.Apply(text)
	rig.WantErr(t, result.Err, problem.Image, "container bad", "registry.example/absent:1")
	calls := r.Runtime.Changes()
	// The pull runs concurrently with these calls.
	others := slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return c == "PullImage registry.example/absent:1" })
	want := []string{"RunPodSandbox", "CreateContainer first", "StartContainer first", "CreateContainer third", "StartContainer third"}
	if !slices.Equal(others, want) || len(calls) != len(want)+1 {
		t.Errorf("calls %q; want one pull in addition to %q", calls, want)
	}
	if result.Outcome != run.OutcomeFailed || len(r.Runtime.Containers()) != 2 {
		t.Errorf("%s, %d containers", result.Outcome, len(r.Runtime.Containers()))
	}
	// When the image is available, apply continues.
	r.Runtime.AddRemote(critest.Image{Name: "registry.example/absent:1"})
	r.Runtime.ForgetCalls()
	if again := r.Apply(text); again.Err != nil {
		t.Errorf("again: %v", again.Err)
	}
	rig.WantChanges(t, r.Runtime, "PullImage registry.example/absent:1", "CreateContainer bad", "StartContainer bad")
	r.MustDelete()
}

// TestApplyOnlyImageFails checks that podrun leaves nothing behind if the only image is not available.
func TestApplyOnlyImageFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, image, policy string }{
		{"not found", "registry.example/absent:1", "IfNotPresent"},
		{"never pulled", "registry.example/absent:1", "Never"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rig.New(t)
			text := rig.PodText("web", "Always", "containers: [{name: app, image: "+tc.image+", imagePullPolicy: "+tc.policy+"}]")
			rig.WantErr(t, r.Apply(text).Err, problem.Image, "container app", tc.image)
			r.NothingLeft()
		})
	}
}

// TestApplyImageBacksOff checks that podrun retries a pull after 10 s if the registry is down.
func TestApplyImageBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.AddRemote(critest.Image{Name: "registry.example/late:1", PullErr: critest.ErrRefused, FailTimes: 2})
		text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/late:1}]")
		begun := time.Now()
		r.MustApply(text, run.OutcomeCreated)
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %s", took)
		}
		if !r.Emitted("BackOff app", `Back-off pulling image "registry.example/late:1"`) {
			t.Errorf("events %q", r.Reasons())
		}
		r.MustDelete()
	})
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.AddRemote(critest.Image{Name: "registry.example/late:1", PullErr: critest.ErrRefused})
		result := r.Apply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/late:1}]"))
		// The error contains the cause, and states that the time limit has expired.
		rig.WantErr(t, result.Err, problem.Image, "container app", "ImagePullBackOff", "connection refused")
		r.NothingLeft()
	})
}

// TestImageTroubleBeforeSandbox covers a slow host, where the deadline may interrupt either the
// back-off of a pull or the creation of a sandbox. In both cases, the error must name the
// image, because this is what the user must fix.
func TestImageTroubleBeforeSandbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.AddRemote(critest.Image{Name: "registry.example/late:1", PullErr: critest.ErrRefused})
		r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Slow, Delay: 20 * time.Minute})
		result := r.Apply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/late:1}]"))
		rig.WantErr(t, result.Err, problem.Image, "pod default/web: container app", "ImagePullBackOff", "connection refused")
		r.NothingLeft()
	})
}

// TestImageBackOffDoesNotBlock covers an image that is not available immediately: like the kubelet,
// podrun must continue with the next container and retry later.
func TestImageBackOffDoesNotBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.AddRemote(critest.Image{Name: "registry.example/late:1", PullErr: critest.ErrRefused, FailTimes: 1, Entrypoint: []string{"/server"}})
		r.MustApply(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: late, image: registry.example/late:1}
  - {name: app, image: registry.example/app:1}
`, run.OutcomeCreated)
		want := []string{"StartContainer app", "StartContainer late"}
		var got []string
		for _, call := range r.Runtime.Changes() {
			if strings.HasPrefix(call, "StartContainer") {
				got = append(got, call)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("started %q, want %q", got, want)
		}
		r.MustDelete()
		r.NothingLeft()
	})
}
