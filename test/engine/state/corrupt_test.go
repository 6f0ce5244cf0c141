package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// corruptFiles are functions that replace a file with content that podrun never writes.
var corruptFiles = map[string]func(path string) error{
	"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
	"null":      func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
	"a list":    func(path string) error { return os.WriteFile(path, []byte("[1, null]"), 0o600) },
	"a value":   func(path string) error { return os.WriteFile(path, []byte(`{"a": 1, "b": [], "": null}`), 0o600) },
	"cut short": func(path string) error { return os.Truncate(path, 25) },
	"binary":    func(path string) error { return os.WriteFile(path, []byte("\x00\xff\x1b[31m\n\x80"), 0o600) },
	"too large": func(path string) error { return os.Truncate(path, 1<<30) }, // the file is sparse
	"a FIFO":    func(path string) error { return unix.Mkfifo(path, 0o600) },
	"endless":   func(path string) error { return os.Symlink("/dev/zero", path) },
	"a loop":    func(path string) error { return os.Symlink(path, path) },
}

// spoil corrupts a file.
func spoil(t testing.TB, path, how string) {
	t.Helper()
	if how != "cut short" && how != "too large" {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := corruptFiles[how](path); err != nil {
		t.Fatal(err)
	}
}

// TestCorruptCheckpointBreaksItsPodOnly (F2) checks that a corrupt checkpoint affects only its own
// pod. Every command must work for other pods, get must show the pod, and delete must remove it by
// name.
func TestCorruptCheckpointBreaksItsPodOnly(t *testing.T) {
	t.Parallel()
	for how := range corruptFiles {
		t.Run(how, func(t *testing.T) {
			r := rig.New(t)
			spec := "containers: [{name: app, image: registry.example/app:1}]"
			r.MustApply(rig.PodText("good", "Always", spec), run.OutcomeCreated)
			bad := r.MustApply(rig.PodText("bad", "Always", spec), run.OutcomeCreated)
			spoil(t, r.Layout().Pod(bad.ID.UID).Checkpoint(), how)

			views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{Namespace: "default"})
			if err != nil || len(views) != 2 {
				t.Fatalf("get: %d pods, %v", len(views), err)
			}
			if v := views[0]; v.ID != bad.ID || v.Broken == nil || v.Object.Status.Reason != "CheckpointCorrupt" ||
				!strings.Contains(v.Object.Status.Message, "podrun delete -n default bad") {
				t.Errorf("get shows %v: %v, %+v", v.ID, v.Broken, v.Object.Status)
			}
			if v := views[1]; v.Broken != nil || v.Object.Status.Phase != corev1.PodRunning || v.Object.Status.Reason != "" {
				t.Errorf("get shows %v: %v, %+v", v.ID, v.Broken, v.Object.Status)
			}
			if _, err := imagestore.List(t.Context(), r.Engine()); err != nil {
				t.Errorf("image ls: %v", err)
			}
			if _, _, err := r.Engine().Prepare(t.Context(), rig.Load(t, rig.PodText("new", "Always", spec)), run.PrepareOptions{AllowKubelet: true}); err != nil {
				t.Errorf("plan: %v", err)
			}
			r.MustApply(rig.PodText("good", "Always", spec), run.OutcomeUnchanged)
			r.MustApply(rig.PodText("new", "Always", spec), run.OutcomeCreated)
			if !strings.Contains(strings.Join(r.Warnings(), "\n"), "podrun does not count its requests and ports: ") {
				t.Errorf("no warning: %q", r.Warnings())
			}
			rig.WantErr(t, r.Apply(rig.PodText("bad", "Always", spec)).Err, problem.Runtime, "read its checkpoint")
			goneByDelete(r, "bad")
			r.MustApply(rig.PodText("bad", "Always", spec), run.OutcomeCreated)
			r.MustDelete()
		})
	}
}

// goneByDelete deletes a pod and checks that it is no longer found.
func goneByDelete(r *rig.Host, name string) {
	r.T.Helper()
	results := r.Delete(run.DeleteOptions{}, name)
	if len(results) != 1 || results[0].Err != nil {
		r.T.Fatalf("delete: %+v", results)
	}
	if left, err := lookup.Find(r.T.Context(), r.Engine(), lookup.Selector{Names: []string{name}}); err != nil || len(left) > 0 {
		r.T.Errorf("still there: %v, %v", left, err)
	}
}

// TestCorruptCheckpointWithoutASandbox covers a pod of which only a corrupt checkpoint remains.
// podrun must take the pod's name from its logs or, if there are no logs, use its UID.
func TestCorruptCheckpointWithoutASandbox(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	layout := r.Layout()
	for _, uid := range []string{"with-logs", "without"} {
		if err := os.MkdirAll(string(layout.Pod(uid)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(layout.Pod(uid).Checkpoint(), []byte("# podrun pod ../../../etc/passwd\n{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(layout.Logs(identity.Pod{Namespace: "ns", Name: "web", UID: "with-logs"}), 0o750); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, sel := range []lookup.Selector{{}, {Namespace: "default"}, {Namespace: "ns"}, {Namespace: "default", Names: []string{"without"}}, {UID: "without"}} {
		found, err := lookup.Find(t.Context(), r.Engine(), sel)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range found {
			names = append(names, k.ID.String())
		}
		names = append(names, "|")
	}
	if got, want := strings.Join(names, " "), "/without ns/web | | ns/web | /without | /without |"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
	if err != nil || len(views) != 2 || views[0].Object.Status.Phase != corev1.PodUnknown {
		t.Errorf("get: %+v, %v", views, err)
	}
	goneByDelete(r, "without")
	goneByDelete(r, "web")
	r.MustDelete()
}

// TestCorruptOptionalFilesStartOver (F4) checks that corrupt optional state files of a pod count as
// missing. No command may panic or fail.
func TestCorruptOptionalFilesStartOver(t *testing.T) {
	t.Parallel()
	for how := range corruptFiles {
		t.Run(how, func(t *testing.T) {
			r := rig.New(t)
			spec := "containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: ['true']}}}, readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}}]"
			pod := rig.PodText("web", "Always", spec)
			created := r.MustApply(pod, run.OutcomeCreated)
			layout, uid := r.Layout(), created.ID.UID
			hooks, err := os.ReadDir(layout.Pod(uid).HookMarks())
			if err != nil || len(hooks) != 1 {
				t.Fatalf("marks of hooks: %v, %v", hooks, err)
			}
			files := []string{
				layout.Pod(uid).State(), layout.Pod(uid).LegacyProbes(), layout.Pod(uid).LegacyResize(), layout.Pod(uid).Restarted(),
				layout.Pod(uid).Journal(), layout.Pod(uid).Devices(), layout.Pod(uid).UserNS(), filepath.Join(layout.Reservations(), "123"),
			}
			again := run.OutcomeUnchanged
			// The mark is also a lock, and a lock file cannot be a link.
			if how != "endless" && how != "a loop" {
				files = append(files, filepath.Join(layout.Pod(uid).HookMarks(), hooks[0].Name()))
				// podrun runs the hook again.
				again = run.OutcomeRestarted
			}
			for _, file := range files {
				if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				f.Close()
				spoil(t, file, how)
			}
			views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
			if err != nil || len(views) != 1 || views[0].Broken != nil || views[0].Object.Status.Phase != corev1.PodRunning {
				t.Fatalf("get: %+v, %v", views, err)
			}
			if events, err := store.ReadJournal(layout, uid); len(events) > 0 && how != "cut short" && how != "too large" {
				t.Errorf("describe: %v, %v", events, err)
			}
			if len(r.Warnings()) == 0 {
				t.Error("no warning")
			}
			r.MustApply(pod, again)
			r.MustApply(rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
			r.NoError(run.StopPods(t.Context(), r.Engine(), []run.Known{{ID: created.ID}}, run.DeleteOptions{}))
			r.MustDelete()
		})
	}
}

// TestObserveIsNeverNil (F4) checks that Observe never returns nil, regardless of which step fails.
func TestObserveIsNeverNil(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	created := r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
	legacyState(r, created.ID.UID)
	file := r.Layout().Pod(created.ID.UID).LegacyProbes()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "null", "[]", `"x"`, `{"a": []}`, `{"a": null}`, "{"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		obs, err := observe.ReadPod(t.Context(), r.Runtime.Client(), r.Layout(), created.ID.UID)
		if obs == nil || err != nil {
			t.Fatalf("%q: %v, %v", text, obs, err)
		}
		valid := text == "null" || text == `{"a": null}`
		if (len(obs.Unreadable) == 0) != valid {
			t.Errorf("%q: warnings %v", text, obs.Unreadable)
		}
		if data, _ := json.Marshal(obs); bytes.Contains(data, []byte("Unreadable")) {
			t.Errorf("%q: the warnings are part of the plan: %s", text, data)
		}
	}
	r.MustDelete()
}

// TestDeleteReadsFewFacts checks that podrun reads only the required facts about the host when it
// deletes or shows pods, so that it does not fail because of other facts.
func TestDeleteReadsFewFacts(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
	r.Settings.ResolvConf = t.TempDir() // a directory, which cannot be read as a file
	rig.WantErr(t, r.Apply(rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/app:1}]")).Err, problem.Runtime, "resolver")
	if views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{}); err != nil || len(views) != 1 {
		t.Errorf("get: %+v, %v", views, err)
	}
	if _, err := imagestore.List(t.Context(), r.Engine()); err != nil {
		t.Errorf("image ls: %v", err)
	}
	r.MustDelete()
}

// TestFallbackToLogsOfALargeLog (D2) checks that podrun reads a termination message from the end of
// the log, regardless of the log's size. It does not run in parallel, because it measures the allocations of
// the whole process.
func TestFallbackToLogsOfALargeLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	record := "2026-01-02T03:04:05.000000006Z stdout P " + strings.Repeat("A", 16<<10) + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(record, 4<<10)), 0o600); err != nil {
		t.Fatal(err)
	}
	obs := &lifecycle.Observed{Containers: []lifecycle.Container{{ID: "a", State: lifecycle.Exited, ExitCode: 1, LogPath: path, Annotations: map[string]string{
		identity.AnnotationTerminationMessagePolicy: string(corev1.TerminationMessageFallbackToLogsOnError)}}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := observe.TerminationMessages(t.Context(), obs)["a"]
	runtime.ReadMemStats(&after)
	if got != strings.Repeat("A", 2048) {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("it took %d bytes", used)
	}
}
