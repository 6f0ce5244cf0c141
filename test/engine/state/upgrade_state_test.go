package state

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
	"github.com/podrun/podrun/test/engine/rig"
)

// legacyState rewrites the state of a pod in the format of the previous release: three files of
// schema version 1.
func legacyState(r *rig.Host, uid string) {
	r.T.Helper()
	l := r.Layout()
	s, errs := store.ReadPodState(l, uid)
	if err := errors.Join(errs...); err != nil {
		r.T.Fatal(err)
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
			r.T.Fatal(err)
		}
	}
	write(l.Pod(uid).State(), s.Kept)
	if s.Probes != nil {
		write(l.Pod(uid).LegacyProbes(), s.Probes)
		if err := os.Chtimes(l.Pod(uid).LegacyProbes(), s.ProbedAt, s.ProbedAt); err != nil {
			r.T.Fatal(err)
		}
	}
	if s.Resize != nil {
		write(l.Pod(uid).LegacyResize(), s.Resize)
	}
}

// wantLegacy checks whether a pod has the state files of the previous release.
func wantLegacy(r *rig.Host, uid string, want bool) {
	r.T.Helper()
	l := r.Layout()
	data, err := os.ReadFile(l.Pod(uid).State())
	_, version := identity.CutSchema(data)
	if err != nil || (version < identity.StateSchema) != want {
		r.T.Errorf("the state has version %d, %v", version, err)
	}
	for _, file := range []string{l.Pod(uid).LegacyProbes(), l.Pod(uid).LegacyResize()} {
		if _, err := os.Lstat(filepath.Dir(file)); !want && !errors.Is(err, fs.ErrNotExist) {
			r.T.Errorf("%s is left: %v", file, err)
		}
	}
}

// wantNoChange checks that no request to the runtime changes a container or sandbox.
func wantNoChange(r *rig.Host) {
	r.T.Helper()
	if got := r.Runtime.CallNames("RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"); len(got) > 0 {
		r.T.Errorf("calls %q", got)
	}
}

// TestAdoptEndedPodOfBefore covers a pod that terminated under the previous release: it must
// remain terminated, although the runtime has lost its containers.
func TestAdoptEndedPodOfBefore(t *testing.T) {
	t.Parallel()
	text := rig.PodText("web", "OnFailure", "containers: [{name: app, image: registry.example/app:1}]")
	ended := func(t *testing.T, r *rig.Host) (uid string) {
		t.Helper()
		r.MustApply(text, run.OutcomeCreated)
		pod := r.Known()[0]
		if result := run.Wait(t.Context(), r.Engine(), pod, run.WaitOptions{For: lifecycle.GoalCompleted}); result.Err != nil {
			t.Fatal(result.Err)
		}
		legacyState(r, pod.ID.UID)
		for _, c := range r.Runtime.Containers() {
			if err := r.Runtime.Client().RemoveContainer(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		r.Runtime.ForgetCalls()
		return pod.ID.UID
	}
	check := func(t *testing.T, r *rig.Host, uid string) {
		t.Helper()
		wantNoChange(r)
		if phase := r.OnlyPod().Status.Phase; phase != corev1.PodSucceeded {
			t.Errorf("phase %s", phase)
		}
		if s, errs := store.ReadPodState(r.Layout(), uid); s.Phase != corev1.PodSucceeded || len(errs) > 0 {
			t.Errorf("state %+v, %v", s, errs)
		}
	}
	t.Run("apply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("app", critest.Behavior{After: time.Second})
			uid := ended(t, r)
			check(t, r, uid)
			r.MustApply(text, run.OutcomeUnchanged)
			check(t, r, uid)
			r.MustDelete()
		})
	})
	t.Run("serve", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			s.End()
			s.Runtime.Script("app", critest.Behavior{After: time.Second})
			uid := ended(t, s.Host)
			s.Start()
			time.Sleep(time.Hour)
			check(t, s.Host, uid)
		})
	})
}

// TestAdoptProbedPodOfBefore checks that the probe results of the previous release, and their
// times, apply to the pod until there are new results.
func TestAdoptProbedPodOfBefore(t *testing.T) {
	t.Parallel()
	text := rig.PodText("web", "Always", "containers: [{name: web, image: registry.example/app:1, readinessProbe: {exec: {command: ['true']}, periodSeconds: 5}}]")
	ready := func(r *rig.Host) string {
		for _, c := range r.Pod("web").Status.Conditions {
			if c.Type == corev1.PodReady {
				return string(c.Status)
			}
		}
		return ""
	}
	t.Run("apply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			uid := r.MustApply(text, run.OutcomeCreated).ID.UID
			if result := run.Wait(t.Context(), r.Engine(), r.Known()[0], run.WaitOptions{For: lifecycle.GoalReady}); result.Err != nil {
				t.Fatal(result.Err)
			}
			probed := time.Now()
			legacyState(r, uid)
			r.Runtime.ForgetCalls()
			time.Sleep(time.Hour)
			views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
			if err != nil || len(views) != 1 || views[0].KnownAt.Sub(probed).Abs() > time.Second || ready(r) != "True" {
				t.Fatalf("get: %v, %+v; want Ready, known at %s", err, views, probed)
			}
			wantLegacy(r, uid, true) // podrun has not written the state
			r.MustApply(text, run.OutcomeUnchanged)
			if result := run.Wait(t.Context(), r.Engine(), r.Known()[0], run.WaitOptions{For: lifecycle.GoalReady}); result.Err != nil {
				t.Fatal(result.Err)
			}
			wantNoChange(r)
			wantLegacy(r, uid, false)
			if s, _ := store.ReadPodState(r.Layout(), uid); len(s.Probes) != 1 || !s.ProbedAt.After(probed) {
				t.Errorf("probes %v of %s, before %s", s.Probes, s.ProbedAt, probed)
			}
			r.MustDelete()
		})
	})
	t.Run("serve", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			s.Files.Write(rig.File("web"), text)
			time.Sleep(time.Minute)
			web := s.Running("web")
			s.End()
			uid := s.Known()[0].ID.UID
			legacyState(s.Host, uid)
			s.Runtime.ForgetCalls()
			s.Start()
			time.Sleep(time.Hour)
			s.Same(web)
			wantNoChange(s.Host)
			if got := ready(s.Host); got != "True" {
				t.Errorf("Ready is %s", got)
			}
			if now, errs := store.ReadPodState(s.Layout(), uid); len(errs) > 0 || len(now.Probes) != 1 {
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
		return rig.PodText("web", "Always", "containers: [{name: web, image: registry.example/app:1, resources: {limits: {memory: "+memory+"}}}]")
	}
	begin := func(t *testing.T, r *rig.Host) (before critest.Container, uid string) {
		t.Helper()
		end := r.Runtime.Fault("UpdateContainerResources", critest.Fault{When: critest.Before})
		if result := r.Apply(text("128Mi")); result.Err == nil {
			t.Fatal("the runtime's error is lost")
		}
		end()
		before, _ = r.Runtime.Container("web")
		uid = r.Known()[0].ID.UID
		legacyState(r, uid)
		if s, _ := store.ReadPodState(r.Layout(), uid); s.Resize == nil || len(s.Resize.Containers) != 1 {
			t.Fatalf("resize %+v", s.Resize)
		}
		r.Runtime.ForgetCalls()
		return before, uid
	}
	check := func(t *testing.T, r *rig.Host, before critest.Container, uid string) {
		t.Helper()
		wantNoChange(r)
		if c, _ := r.Runtime.Container("web"); c.ID != before.ID {
			t.Error("the container was replaced")
		}
		if got := r.Runtime.CallNames("UpdateContainerResources"); !slices.Equal(got, []string{"UpdateContainerResources web"}) {
			t.Errorf("calls %q", got)
		}
		if got := r.Pod("web").Status.ContainerStatuses[0].Resources.Limits.Memory().String(); got != "128Mi" {
			t.Errorf("limit %s", got)
		}
		if s, errs := store.ReadPodState(r.Layout(), uid); s.Resize != nil || len(errs) > 0 {
			t.Errorf("resize %+v, %v", s.Resize, errs)
		}
		wantLegacy(r, uid, false)
	}
	t.Run("apply", func(t *testing.T) {
		r := rig.New(t)
		defer r.MustDelete()
		r.MustApply(text("64Mi"), run.OutcomeCreated)
		before, uid := begin(t, r)
		r.MustApply(text("128Mi"), run.OutcomeUnchanged)
		check(t, r, before, uid)
	})
	t.Run("serve", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			s.End()
			s.MustApply(text("64Mi"), run.OutcomeCreated)
			before, uid := begin(t, s.Host)
			s.Start()
			time.Sleep(time.Minute)
			check(t, s.Host, before, uid)
		})
	})
}

// TestStateIsOfItsSchema covers an older version of podrun, which supports schema versions up to 2.
// When this version has written the state file, the older one must detect the file's version, and
// refuse to change the pod.
func TestStateIsOfItsSchema(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	uid := r.MustApply(withHook, run.OutcomeCreated).ID.UID
	// Older versions of podrun use this path.
	file := filepath.Join(string(r.Layout().Pod(uid)), "plugins/podrun.dev~status/status.json")
	data, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(data), "# podrun schema 3\n{") {
		t.Errorf("%s contains %q, %v", file, data, err)
	}
	for _, other := range append(keepAll(r, uid), r.Layout().Pod(uid).PendingRestarts(), r.Layout().Owner(identity.Pod{Namespace: "default", Name: "web"})) {
		data, err := os.ReadFile(other)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, version := identity.CutSchema(data); err != nil || (version > 1) != (other == file) {
			t.Errorf("%s has version %d, %v", other, version, err)
		}
	}
	r.MustDelete()
}
