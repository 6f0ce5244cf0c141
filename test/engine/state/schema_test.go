package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// withHook is a pod for which podrun stores the state of a hook.
var withHook = rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: ['true']}}}}]")

// keepAll writes each kind of state file of a pod, as this version of podrun does, and returns
// their paths.
func keepAll(r *rig.Host, uid string) []string {
	r.T.Helper()
	l := r.Layout()
	hooks, err := os.ReadDir(l.Pod(uid).HookMarks())
	if err != nil || len(hooks) != 1 {
		r.T.Fatalf("hooks: %v, %v; want one", hooks, err)
	}
	backOff := filepath.Join(l.ImageBackOff(), uid+".json")
	for file, content := range map[string]string{
		l.Pod(uid).Devices(): `{"app":["vendor.example/device=1"]}`, l.Pod(uid).Restarted(): `["0123456789abc"]`,
		backOff: "[]",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			r.T.Fatal(err)
		}
		if err := os.WriteFile(file, identity.AddSchema(identity.PlainSchema, []byte(content)), 0o600); err != nil {
			r.T.Fatal(err)
		}
	}
	if err := store.UpdatePodState(l, uid, func(s *store.PodState) {
		s.Probes = map[string]lifecycle.Probed{"0123456789abc": {Started: true, Ready: true}}
		s.Resize = &lifecycle.Resize{Group: true, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	}); err != nil {
		r.T.Fatal(err)
	}
	return []string{l.Pod(uid).Checkpoint(), l.Pod(uid).Devices(), l.Pod(uid).Restarted(), l.Pod(uid).State(), backOff, filepath.Join(l.Pod(uid).HookMarks(), hooks[0].Name())}
}

var schemaLine = regexp.MustCompile(`(?m)^# podrun schema \d+\n`)

// setVersion changes the version of a state file. The version "0" removes the line, as in files of
// releases that did not write a version.
func setVersion(t *testing.T, file string, version string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	current := schemaLine.FindString(string(data))
	if current == "" {
		t.Fatalf("%s has no version: %q", file, data)
	}
	line := "# podrun schema " + version + "\n"
	if version == "0" {
		line = ""
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), current, line, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSchemaOfBefore checks that state files without a version, as older podrun versions wrote
// them, are read like current files.
func TestSchemaOfBefore(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	first := r.MustApply(withHook, run.OutcomeCreated)
	files := keepAll(r, first.ID.UID)
	see := func() *lifecycle.Observed {
		t.Helper()
		obs, err := observe.ReadPod(t.Context(), r.Runtime.Client(), r.Layout(), first.ID.UID)
		if err != nil {
			t.Fatal(err)
		}
		return obs
	}
	now := see()
	legacyState(r, first.ID.UID)
	for _, file := range append(files, r.Layout().Pod(first.ID.UID).LegacyProbes(), r.Layout().Pod(first.ID.UID).LegacyResize()) {
		setVersion(t, file, "0")
	}
	old := see()
	if len(now.Hooks) != 1 || now.Hooks[filepath.Base(files[5])] != lifecycle.HookDone || old.Hooks[filepath.Base(files[5])] != lifecycle.HookDone {
		t.Errorf("hooks %v, of before %v", now.Hooks, old.Hooks)
	}
	if !now.Restarted["0123456789abc"] || !old.Restarted["0123456789abc"] {
		t.Errorf("restarted %v, of before %v", now.Restarted, old.Restarted)
	}
	if want := (lifecycle.Probed{Started: true, Ready: true}); now.Probes["0123456789abc"] != want || old.Probes["0123456789abc"] != want {
		t.Errorf("probes %v, of before %v", now.Probes, old.Probes)
	}
	if now.Resize == nil || old.Resize == nil || !old.Resize.Group {
		t.Errorf("resize %v, of before %v", now.Resize, old.Resize)
	}
	r.Runtime.ForgetCalls()
	if again := r.MustApply(withHook, run.OutcomeUnchanged); again.ID != first.ID {
		t.Errorf("pod %v, want %v", again.ID, first.ID)
	}
	rig.WantChanges(t, r.Runtime)
}

// TestSchemaOfTheStoppedMark checks that podrun writes and reads the mark with its version, and
// can also read it without one.
func TestSchemaOfTheStoppedMark(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	first := r.MustApply(withHook, run.OutcomeCreated)
	pods, err := lookup.Find(t.Context(), r.Engine(), lookup.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	if results := run.StopPods(t.Context(), r.Engine(), pods, run.DeleteOptions{}); results[0].Err != nil {
		t.Fatal(results[0].Err)
	}
	mark := r.Layout().Pod(first.ID.UID).StoppedMark()
	for _, version := range []string{"", "0"} {
		if version != "" {
			setVersion(t, mark, version)
		}
		result := run.Wait(t.Context(), r.Engine(), pods[0], run.WaitOptions{For: lifecycle.GoalStarted})
		rig.WantErr(t, result.Err, problem.Failed, "was stopped by")
		if strings.Contains(result.Err.Error(), "schema") {
			t.Errorf("error %q has the version", result.Err)
		}
	}
	os.WriteFile(mark, fmt.Appendf(nil, "# podrun schema %d\n{\"why\": \"of a newer form\"}\n", identity.Schema+1), 0o600)
	result := run.Wait(t.Context(), r.Engine(), pods[0], run.WaitOptions{For: lifecycle.GoalStarted})
	rig.WantErr(t, result.Err, problem.Refused, mark, fmt.Sprintf("schema version %d", identity.Schema+1))
}

// TestSchemaOfANewerPodrun checks that a state file of a newer version of podrun blocks exactly the
// commands that change the pod, even if podrun can read the content of the file.
func TestSchemaOfANewerPodrun(t *testing.T) {
	t.Parallel()
	for _, unreadable := range []bool{false, true} {
		for i := range 6 {
			r := rig.New(t)
			first := r.MustApply(withHook, run.OutcomeCreated)
			other := r.MustApply(rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
			file := keepAll(r, first.ID.UID)[i]
			t.Run(strings.TrimPrefix(file, r.Settings.RootDir)+map[bool]string{true: " of another form"}[unreadable], func(t *testing.T) {
				setVersion(t, file, "7")
				if unreadable {
					makeUnreadable(t, file)
				}
				r.Runtime.ForgetCalls()
				blocks(t, r, file, first.ID)
				rig.WantChanges(t, r.Runtime)
				shows(t, r, first.ID, file == r.Layout().Pod(first.ID.UID).Checkpoint() && unreadable)
				if results, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/app:1}]")),
					run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}); err != nil || results[0].Outcome != run.OutcomeUnchanged {
					t.Errorf("another pod: %+v, %v", results, err)
				}
				for _, result := range r.Delete(run.DeleteOptions{}) {
					if result.Err != nil || result.Outcome != run.OutcomeDeleted {
						t.Errorf("delete: %+v", result)
					}
				}
				r.NothingLeft()
			})
			_ = other
		}
	}
}

// makeUnreadable keeps the first lines of a state file and replaces the rest.
func makeUnreadable(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var head strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "# podrun ") {
			head.WriteString(line)
		}
	}
	if err := os.WriteFile(file, []byte(head.String()+"\x01\x02 of a later form\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// blocks checks that every command that changes a pod is refused.
func blocks(t *testing.T, r *rig.Host, file string, id identity.Pod) {
	t.Helper()
	pods, err := lookup.Find(t.Context(), r.Engine(), lookup.Selector{Namespace: id.Namespace, Names: []string{id.Name}})
	if err != nil || len(pods) != 1 {
		t.Fatalf("%v, %v", pods, err)
	}
	options := run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}
	for name, do := range map[string]func() ([]run.Result, error){
		"apply": func() ([]run.Result, error) {
			return run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, withHook), options)
		},
		"start":   func() ([]run.Result, error) { return run.StartPods(t.Context(), r.Engine(), pods, options) },
		"restart": func() ([]run.Result, error) { return rig.RestartPods(t.Context(), r.Engine(), pods, options) },
		"stop": func() ([]run.Result, error) {
			return run.StopPods(t.Context(), r.Engine(), pods, run.DeleteOptions{}), nil
		},
		"wait": func() ([]run.Result, error) {
			return rig.ResultsOf(run.WaitAll(t.Context(), r.Engine(), pods, run.WaitOptions{For: lifecycle.GoalStarted})), nil
		},
		"run --replace": func() ([]run.Result, error) {
			_, err := rig.RunPods(t.Context(), r.Engine(), rig.Load(t, withHook), run.RunOptions{ApplyOptions: options, Replace: true})
			return nil, err
		},
	} {
		results, err := do()
		for _, result := range results {
			err = errors.Join(err, result.Err)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		t.Log(name, err)
		e, ok := errors.AsType[*problem.Error](err)
		if text := err.Error(); !ok || e.Kind != problem.Refused || !strings.Contains(text, file) || !strings.Contains(text, "version 7") ||
			!strings.Contains(text, id.String()) || !strings.Contains(e.Hint, "newer podrun") {
			t.Errorf("%s: %v (%+v)", name, err, e)
		}
	}
}

// shows checks that commands list the pod with the data that podrun can read.
func shows(t *testing.T, r *rig.Host, id identity.Pod, unknown bool) {
	t.Helper()
	views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(views, func(v lookup.View) bool { return v.ID == id })
	if len(views) != 2 || at < 0 {
		t.Fatalf("%d pods, index of the test's pod %d", len(views), at)
	}
	pod := views[at].Object
	if pod.Status.Phase != "Running" || len(pod.Status.ContainerStatuses) != 1 || (views[at].Pod == nil) != unknown {
		t.Errorf("phase %s, %d containers", pod.Status.Phase, len(pod.Status.ContainerStatuses))
	}
}
