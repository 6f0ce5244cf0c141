package engine

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/store"
)

// legacyState rewrites the state of a pod in the format of the previous release: three files of
// schema version 1.
func (r *rig) legacyState(uid string) {
	r.t.Helper()
	l := r.layout()
	s, errs := store.ReadPodState(l, uid)
	if err := errors.Join(errs...); err != nil {
		r.t.Fatal(err)
	}
	write := func(file string, value any) {
		data, err := json.Marshal(value)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o750)
		}
		if err == nil {
			err = os.WriteFile(file, identity.AddSchema(identity.PlainSchema, data), 0o640)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	write(l.State(uid), s.Kept)
	if s.Probes != nil {
		write(l.LegacyProbes(uid), s.Probes)
		if err := os.Chtimes(l.LegacyProbes(uid), s.ProbedAt, s.ProbedAt); err != nil {
			r.t.Fatal(err)
		}
	}
	if s.Resize != nil {
		write(l.LegacyResize(uid), s.Resize)
	}
}

// wantLegacy checks whether a pod has the state files of the previous release.
func (r *rig) wantLegacy(uid string, want bool) {
	r.t.Helper()
	l := r.layout()
	data, err := os.ReadFile(l.State(uid))
	_, version := identity.CutSchema(data)
	if err != nil || (version < identity.StateSchema) != want {
		r.t.Errorf("the state has version %d, %v", version, err)
	}
	for _, file := range []string{l.LegacyProbes(uid), l.LegacyResize(uid)} {
		if _, err := os.Lstat(filepath.Dir(file)); !want && !errors.Is(err, fs.ErrNotExist) {
			r.t.Errorf("%s is left: %v", file, err)
		}
	}
}

// wantNoChange checks that no request to the runtime changes a container or sandbox.
func (r *rig) wantNoChange() {
	r.t.Helper()
	if got := r.rt.CallNames("RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"); len(got) > 0 {
		r.t.Errorf("calls %q", got)
	}
}

// TestAdoptEndedPodOfBefore covers a pod that terminated under the previous release: it must
// remain terminated, although the runtime has lost its containers.
func TestAdoptEndedPodOfBefore(t *testing.T) {
	t.Parallel()
	text := podText("web", "OnFailure", "containers: [{name: app, image: registry.example/app:1}]")
	ended := func(t *testing.T, r *rig) (uid string) {
		t.Helper()
		r.mustApply(text, run.OutcomeCreated)
		pod := r.known()[0]
		if result := run.Wait(t.Context(), r.engine(), pod, run.WaitOptions{For: lifecycle.GoalCompleted}); result.Err != nil {
			t.Fatal(result.Err)
		}
		r.legacyState(pod.ID.UID)
		for _, c := range r.rt.Containers() {
			if err := r.rt.Client().RemoveContainer(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		r.rt.ForgetCalls()
		return pod.ID.UID
	}
	check := func(t *testing.T, r *rig, uid string) {
		t.Helper()
		r.wantNoChange()
		if phase := r.shown().Status.Phase; phase != corev1.PodSucceeded {
			t.Errorf("phase %s", phase)
		}
		if s, errs := store.ReadPodState(r.layout(), uid); s.Phase != corev1.PodSucceeded || len(errs) > 0 {
			t.Errorf("state %+v, %v", s, errs)
		}
	}
	t.Run("apply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("app", critest.Behavior{After: time.Second})
			uid := ended(t, r)
			check(t, r, uid)
			r.mustApply(text, run.OutcomeUnchanged)
			check(t, r, uid)
			r.mustDelete()
		})
	})
	t.Run("serve", func(t *testing.T) {
		serveTest(t, func(t *testing.T, s *serving) {
			s.end()
			s.rt.Script("app", critest.Behavior{After: time.Second})
			uid := ended(t, s.rig)
			s.start()
			time.Sleep(time.Hour)
			check(t, s.rig, uid)
		})
	})
}

// TestAdoptProbedPodOfBefore checks that the probe results of the previous release, and their
// times, apply to the pod until there are new results.
func TestAdoptProbedPodOfBefore(t *testing.T) {
	t.Parallel()
	text := podText("web", "Always", "containers: [{name: web, image: registry.example/app:1, readinessProbe: {exec: {command: ['true']}, periodSeconds: 5}}]")
	ready := func(r *rig) string {
		for _, c := range r.got("web").Status.Conditions {
			if c.Type == corev1.PodReady {
				return string(c.Status)
			}
		}
		return ""
	}
	t.Run("apply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			uid := r.mustApply(text, run.OutcomeCreated).ID.UID
			if result := run.Wait(t.Context(), r.engine(), r.known()[0], run.WaitOptions{For: lifecycle.GoalReady}); result.Err != nil {
				t.Fatal(result.Err)
			}
			probed := time.Now()
			r.legacyState(uid)
			r.rt.ForgetCalls()
			time.Sleep(time.Hour)
			views, err := lookup.Pods(t.Context(), r.engine(), lookup.Selector{})
			if err != nil || len(views) != 1 || views[0].KnownAt.Sub(probed).Abs() > time.Second || ready(r) != "True" {
				t.Fatalf("get: %v, %+v; want Ready, known at %s", err, views, probed)
			}
			r.wantLegacy(uid, true) // podrun has not written the state
			r.mustApply(text, run.OutcomeUnchanged)
			if result := run.Wait(t.Context(), r.engine(), r.known()[0], run.WaitOptions{For: lifecycle.GoalReady}); result.Err != nil {
				t.Fatal(result.Err)
			}
			r.wantNoChange()
			r.wantLegacy(uid, false)
			if s, _ := store.ReadPodState(r.layout(), uid); len(s.Probes) != 1 || !s.ProbedAt.After(probed) {
				t.Errorf("probes %v of %s, before %s", s.Probes, s.ProbedAt, probed)
			}
			r.mustDelete()
		})
	})
	t.Run("serve", func(t *testing.T) {
		serveTest(t, func(t *testing.T, s *serving) {
			s.files.write(file("web"), text)
			time.Sleep(time.Minute)
			web := s.running("web")
			s.end()
			uid := s.known()[0].ID.UID
			s.legacyState(uid)
			s.rt.ForgetCalls()
			s.start()
			time.Sleep(time.Hour)
			s.same(web)
			s.wantNoChange()
			if got := ready(s.rig); got != "True" {
				t.Errorf("Ready is %s", got)
			}
			if now, errs := store.ReadPodState(s.layout(), uid); len(errs) > 0 || len(now.Probes) != 1 {
				t.Errorf("state %+v, %v", now, errs)
			}
		})
	})
}

// TestAdoptResizingPodOfBefore checks that podrun completes a resize that the previous release
// began, without a restart.
func TestAdoptResizingPodOfBefore(t *testing.T) {
	t.Parallel()
	text := func(memory string) string {
		return podText("web", "Always", "containers: [{name: web, image: registry.example/app:1, resources: {limits: {memory: "+memory+"}}}]")
	}
	begin := func(t *testing.T, r *rig) (before critest.Container, uid string) {
		t.Helper()
		end := r.rt.Fault("UpdateContainerResources", critest.Fault{When: critest.Before})
		if result := r.apply(text("128Mi")); result.Err == nil {
			t.Fatal("the runtime's error is lost")
		}
		end()
		before, _ = r.rt.Container("web")
		uid = r.known()[0].ID.UID
		r.legacyState(uid)
		if s, _ := store.ReadPodState(r.layout(), uid); s.Resize == nil || len(s.Resize.Containers) != 1 {
			t.Fatalf("resize %+v", s.Resize)
		}
		r.rt.ForgetCalls()
		return before, uid
	}
	check := func(t *testing.T, r *rig, before critest.Container, uid string) {
		t.Helper()
		r.wantNoChange()
		if c, _ := r.rt.Container("web"); c.ID != before.ID {
			t.Error("the container was replaced")
		}
		if got := r.rt.CallNames("UpdateContainerResources"); !slices.Equal(got, []string{"UpdateContainerResources web"}) {
			t.Errorf("calls %q", got)
		}
		if got := r.got("web").Status.ContainerStatuses[0].Resources.Limits.Memory().String(); got != "128Mi" {
			t.Errorf("limit %s", got)
		}
		if s, errs := store.ReadPodState(r.layout(), uid); s.Resize != nil || len(errs) > 0 {
			t.Errorf("resize %+v, %v", s.Resize, errs)
		}
		r.wantLegacy(uid, false)
	}
	t.Run("apply", func(t *testing.T) {
		r := newRig(t)
		defer r.mustDelete()
		r.mustApply(text("64Mi"), run.OutcomeCreated)
		before, uid := begin(t, r)
		r.mustApply(text("128Mi"), run.OutcomeUnchanged)
		check(t, r, before, uid)
	})
	t.Run("serve", func(t *testing.T) {
		serveTest(t, func(t *testing.T, s *serving) {
			s.end()
			s.mustApply(text("64Mi"), run.OutcomeCreated)
			before, uid := begin(t, s.rig)
			s.start()
			time.Sleep(time.Minute)
			check(t, s.rig, before, uid)
		})
	})
}

// TestStateIsOfItsSchema covers an older version of podrun, which supports schema versions up to 2.
// When this version has written the state file, the older one must detect the file's version, and
// refuse to change the pod.
func TestStateIsOfItsSchema(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	uid := r.mustApply(withHook, run.OutcomeCreated).ID.UID
	// Older versions of podrun use this path.
	file := filepath.Join(r.layout().Pod(uid), "plugins/podrun.dev~status/status.json")
	data, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(data), "# podrun schema 3\n{") {
		t.Errorf("%s contains %q, %v", file, data, err)
	}
	for _, other := range append(r.keepAll(uid), r.layout().PendingRestarts(uid), r.layout().Owner(identity.Pod{Namespace: "default", Name: "web"})) {
		data, err := os.ReadFile(other)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, version := identity.CutSchema(data); err != nil || (version > 1) != (other == file) {
			t.Errorf("%s has version %d, %v", other, version, err)
		}
	}
	r.mustDelete()
}
