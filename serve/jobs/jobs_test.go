package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/schedule"
	"github.com/podrun/podrun/serve/source"
	"github.com/podrun/podrun/test/patience"
)

// host is a root directory with a controller whose pods end when the test says so.
type host struct {
	t      *testing.T
	layout identity.Layout
	now    time.Time
	c      *Controller
	want   *source.Desired
	phases map[string]corev1.PodPhase // by the name of the pod
	starts map[string]int             // how often each pod was started
	warns  []string
	reads  []string // the names of pods whose states were read
}

func newHost(t *testing.T, manifests string) *host {
	h := &host{t: t, layout: identity.Layout{RootDir: t.TempDir()}, now: time.Date(2026, 3, 1, 12, 0, 30, 0, time.Local), phases: map[string]corev1.PodPhase{}, starts: map[string]int{}}
	h.define(manifests)
	h.boot()
	return h
}

// define replaces the content of the manifest directory.
func (h *host) define(manifests string) {
	h.t.Helper()
	h.want = source.Merge(&source.Snapshot{})
	if manifests == "" {
		return
	}
	objects, problems := manifest.Load([]input.Source{{Name: "f", Data: []byte(manifests)}}, manifest.Options{Controllers: true})
	if len(problems.Errors()) > 0 {
		h.t.Fatal(problems)
	}
	for _, j := range objects.Jobs {
		h.want.Jobs = append(h.want.Jobs, source.Job{Job: j.Object, Path: "/m/f"})
	}
	for _, c := range objects.CronJobs {
		h.want.CronJobs = append(h.want.CronJobs, source.CronJob{CronJob: c.Object, Path: "/m/f"})
	}
	for _, p := range objects.Pods {
		h.want.Pods = append(h.want.Pods, source.Pod{Pod: p, Path: "/m/f"})
	}
}

// boot starts a new process.
func (h *host) boot() {
	c, err := New(Options{Layout: h.layout, Warn: func(l problem.List) { h.warns = append(h.warns, l[0].Message) }, Changed: func() {}, Now: func() time.Time { return h.now },
		States: func(_ context.Context, _ string, names []string) (map[string]schedule.PodState, error) {
			out := map[string]schedule.PodState{}
			h.reads = append(h.reads, names...)
			for _, name := range names {
				phase, ok := h.phases[name]
				if !ok {
					out[name] = schedule.PodState{Absent: true, Gone: h.starts[name] > 0}
					continue
				}
				out[name] = schedule.PodState{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase}}}
			}
			return out, nil
		}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.c = c
}

// sync makes one decision and then acts as the supervisor would: it starts each desired pod once, and
// removes other pods.
func (h *host) sync() {
	h.t.Helper()
	for range 4 {
		h.c.polled = time.Time{} // reads the states of all pods
		h.c.Merge(&source.Snapshot{Dirs: []source.Dir{{Path: "/m", State: source.Present}}}, h.want)
		if _, err := h.c.Sync(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
		desired := map[string]bool{}
		for i := range h.c.pods {
			name := h.c.pods[i].Object.Name
			desired[name] = true
			if h.starts[name] == 0 {
				h.starts[name]++
				h.phases[name] = corev1.PodRunning
			}
		}
		for name := range h.phases {
			if !desired[name] {
				delete(h.phases, name)
			}
		}
	}
}

func (h *host) job(name string) *store.JobRecord {
	records, err := store.ReadRecords(h.layout)
	if err != nil || len(records.Unreadable) > 0 {
		h.t.Fatal(err, records.Unreadable)
	}
	for _, r := range records.Jobs {
		if r.Job.Name == name {
			return r
		}
	}
	return nil
}

func (h *host) jobs() (names []string) {
	records, err := store.ReadRecords(h.layout)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range records.Jobs {
		names = append(names, r.Job.Name)
	}
	return names
}

const template = `{spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}`

func cronJob(more string) string {
	return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {schedule: '* * * * *', " + more + "jobTemplate: {spec: {template: " + template + "}}}\n"
}

func job(more string) string {
	return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {" + more + "template: " + template + "}\n"
}

// TestMissedRuns checks that after any time without podrun, only the latest missed run starts, and
// that no run starts after the clock was set back.
func TestMissedRuns(t *testing.T) {
	h := newHost(t, cronJob(""))
	h.sync()
	if got := h.jobs(); len(got) != 0 {
		t.Fatalf("Jobs %v before the first minute", got)
	}
	h.now = h.now.Add(31 * time.Second)
	h.sync()
	first := fmt.Sprintf("c-%d", h.now.Unix()/60)
	h.now = h.now.Add(3000 * time.Hour)
	h.boot()
	h.sync()
	second := fmt.Sprintf("c-%d", h.now.Unix()/60)
	h.now = h.now.Add(-2 * time.Hour)
	h.boot()
	h.sync()
	if got := h.jobs(); !slices.Equal(got, []string{first, second}) {
		t.Errorf("Jobs %v, want %s and %s", got, first, second)
	}
	if !slices.ContainsFunc(h.warns, func(s string) bool { return strings.Contains(s, "more than 100 runs were missed") }) {
		t.Errorf("warnings %q", h.warns)
	}
}

// TestKilledStart checks every state of the records that a kill can leave between the decision to start
// a Job and its first pod: the Job must run exactly once.
func TestKilledStart(t *testing.T) {
	for _, killedAfter := range []string{"the CronJob's intention", "the Job's record", "the CronJob's status", "the Job's first pod"} {
		t.Run(killedAfter, func(t *testing.T) {
			h := newHost(t, cronJob(""))
			h.sync()
			h.now = h.now.Add(31 * time.Second)
			name := fmt.Sprintf("c-%d", h.now.Unix()/60)
			h.sync()
			// Undo the later writes.
			records, err := store.ReadRecords(h.layout)
			if err != nil {
				t.Fatal(err)
			}
			c, j := records.CronJobs[0], records.Jobs[0]
			starting := j.Job.DeepCopy()
			starting.Status = batchv1.JobStatus{}
			h.phases, h.starts = map[string]corev1.PodPhase{}, map[string]int{}
			switch killedAfter {
			case "the CronJob's intention":
				c.Starting, c.CronJob.Status.Active = starting, nil
				err = store.RemoveJob(h.layout, j.Job)
			case "the Job's record":
				c.Starting, c.CronJob.Status.Active = starting, nil
				err = store.WriteJob(h.layout, &store.JobRecord{Job: starting})
			case "the CronJob's status":
				err = store.WriteJob(h.layout, &store.JobRecord{Job: starting})
			}
			if err == nil {
				err = store.WriteCronJob(h.layout, c)
			}
			if err != nil {
				t.Fatal(err)
			}
			h.boot()
			h.sync()
			after, err := store.ReadRecords(h.layout)
			if err != nil {
				t.Fatal(err)
			}
			if len(after.Jobs) != 1 || after.Jobs[0].Job.Name != name || after.Jobs[0].Job.UID != starting.UID || after.Jobs[0].Attempts != 1 || h.starts[name] != 1 {
				t.Errorf("Jobs %v, starts %v", h.jobs(), h.starts)
			}
			if active := after.CronJobs[0].CronJob.Status.Active; after.CronJobs[0].Starting != nil || len(active) != 1 || active[0].UID != starting.UID {
				t.Errorf("CronJob %+v", after.CronJobs[0])
			}
		})
	}
}

// TestJobRunsOnce checks that after a Job of a file was deleted, by its ttlSecondsAfterFinished or by a
// command, it does not run again until the file defines another Job.
func TestJobRunsOnce(t *testing.T) {
	h := newHost(t, job("ttlSecondsAfterFinished: 60, "))
	h.sync()
	h.phases["j"] = corev1.PodSucceeded
	h.sync()
	if !lifecycle.JobHas(h.job("j").Job, batchv1.JobComplete) {
		t.Fatalf("%+v", h.job("j").Job.Status)
	}
	h.now = h.now.Add(time.Hour)
	h.sync()
	if r := h.job("j"); r == nil || !r.Deleted || len(h.phases) != 0 {
		t.Fatalf("%+v, pods %v", r, h.phases)
	}
	h.boot()
	h.sync()
	if len(h.phases) != 0 {
		t.Errorf("the Job runs again: %v", h.phases)
	}
	h.define(job("completions: 2, "))
	h.sync()
	if r := h.job("j"); r.Deleted || r.Attempts != 1 {
		t.Errorf("another Job: %+v", r)
	}
	h.define("")
	h.sync()
	if r := h.job("j"); r != nil || len(h.phases) != 0 {
		t.Errorf("without a file: %+v, pods %v", r, h.phases)
	}
}

// TestRetries checks the names and the delays of pods that replace failed or deleted ones, across a
// restart of podrun.
func TestRetries(t *testing.T) {
	h := newHost(t, job("backoffLimit: 2, "))
	h.sync()
	h.phases["j"] = corev1.PodFailed
	h.sync()
	h.boot()
	h.now = h.now.Add(9 * time.Second)
	h.sync()
	if r := h.job("j"); r.Attempts != 1 {
		t.Fatalf("no back-off: %+v", r)
	}
	h.now = h.now.Add(time.Second)
	h.sync()
	r := h.job("j")
	if r.Attempts != 2 || !strings.HasPrefix(r.Pods[1].Name, "j-") {
		t.Fatalf("%+v", r)
	}
	delete(h.phases, r.Pods[1].Name) // a user deleted it
	h.now = h.now.Add(time.Second)
	h.sync()
	if r = h.job("j"); r.Job.Status.Failed != 2 || r.Attempts != 2 {
		t.Fatalf("%+v", r)
	}
	h.now = h.now.Add(20 * time.Second)
	h.sync()
	h.phases[h.job("j").Pods[2].Name] = corev1.PodFailed
	h.sync()
	if r = h.job("j"); !lifecycle.JobHas(r.Job, batchv1.JobFailed) || r.Attempts != 3 || len(r.Pods) != 3 {
		t.Errorf("%+v", r)
	}
}

// TestRetryAfterClockWasSetBack checks that after the clock was set back, a Job does not wait until the clock
// reaches the time of its last failure again.
func TestRetryAfterClockWasSetBack(t *testing.T) {
	h := newHost(t, job(""))
	h.sync()
	h.phases["j"] = corev1.PodFailed
	h.sync()
	h.now = h.now.AddDate(-4, 0, 0)
	h.boot()
	h.sync()
	if r := h.job("j"); r.Attempts != 2 {
		t.Errorf("%+v", r)
	}
}

// TestNames checks that the pod of a Job gets another name than the pod of a Deployment.
func TestNames(t *testing.T) {
	h := newHost(t, job("")+"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: j}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n")
	h.sync()
	if r := h.job("j"); len(r.Pods) != 1 || r.Pods[0].Name == "j" || !strings.HasPrefix(r.Pods[0].Name, "j-") {
		t.Errorf("%+v", r)
	}
}

// TestIndexed checks the index, the labels and the host name of a pod.
func TestIndexed(t *testing.T) {
	h := newHost(t, job("completions: 2, completionMode: Indexed, "))
	h.sync()
	h.phases["j"] = corev1.PodSucceeded
	h.sync()
	p := h.c.pods[1].Object
	if p.Spec.Hostname != "j-1" || p.Spec.Containers[0].Env[0].Value != "1" || p.Labels[batchv1.JobNameLabel] != "j" || p.Annotations[batchv1.JobCompletionIndexAnnotation] != "1" {
		t.Errorf("%+v", p)
	}
}

// TestUnreadable checks that podrun keeps the pods of a record that it cannot read.
func TestUnreadable(t *testing.T) {
	h := newHost(t, job(""))
	h.sync()
	path := filepath.Join(h.layout.Jobs(), "default_j")
	if err := os.WriteFile(path, []byte("# podrun schema 99\n{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.boot()
	h.sync()
	snapshot, _ := h.c.Merge(&source.Snapshot{}, h.want)
	if may, why := snapshot.MayDefine(path); !may || !strings.Contains(why, "schema version 99") {
		t.Errorf("may define: %t, %s", may, why)
	}
	if may, _ := snapshot.MayDefine(filepath.Join(h.layout.Jobs(), "default_other")); may {
		t.Error("a missing record may define a pod")
	}
}

// TestConcurrency checks the three concurrency policies and the history limit.
func TestConcurrency(t *testing.T) {
	for policy, want := range map[string]int{"Allow": 3, "Forbid": 1, "Replace": 1} {
		h := newHost(t, cronJob("concurrencyPolicy: "+policy+", "))
		h.sync()
		for range 3 {
			h.now = h.now.Add(time.Minute)
			h.sync()
			if len(h.c.pods) == 0 || h.c.pods[0].WroteDNSPolicy {
				t.Errorf("%d pods, or one has the default dnsPolicy of its template as if the file had set it", len(h.c.pods))
			}
		}
		if len(h.phases) != want || len(h.jobs()) != want {
			t.Errorf("%s: pods %v, Jobs %v", policy, h.phases, h.jobs())
		}
	}
	h := newHost(t, cronJob("successfulJobsHistoryLimit: 2, "))
	h.sync()
	for range 5 {
		h.now = h.now.Add(time.Minute)
		h.sync()
		for name := range h.phases {
			h.phases[name] = corev1.PodSucceeded
		}
		h.sync()
	}
	if got := h.jobs(); len(got) != 2 || len(h.phases) != 2 {
		t.Errorf("history %v, pods %v", got, h.phases)
	}
}

// TestAdoption checks that the Job of a file adopts the pod that an older podrun started from the
// same file, and no other pod.
func TestAdoption(t *testing.T) {
	for path, want := range map[string]bool{"/m/f": true, "/m/other": false} {
		h := newHost(t, job(""))
		id := identity.Pod{Namespace: "default", Name: "j"}
		if err := os.MkdirAll(h.layout.Owners(), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.layout.Owner(id), []byte(`{"uid": "u"}`), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := store.WriteSource(h.layout, id, store.SourceRecord{Path: path, Hash: "h"}); err != nil {
			t.Fatal(err)
		}
		h.sync()
		if adopted := h.job("j").Pods[0].Name == "j"; adopted != want {
			t.Errorf("%s: pods %+v", path, h.job("j").Pods)
		}
	}
}

// TestAdoptionOfOtherKinds checks that a Job does not adopt a pod that another object of the same file
// defined.
func TestAdoptionOfOtherKinds(t *testing.T) {
	for kind, want := range map[string]bool{"Job": true, "Pod": false, "Deployment": false} {
		h := newHost(t, job(""))
		id := identity.Pod{Namespace: "default", Name: "j", UID: "u"}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "u"}}
		err := errors.Join(os.MkdirAll(h.layout.Owners(), 0o750), os.MkdirAll(filepath.Dir(h.layout.Pod("u").Checkpoint()), 0o750), os.WriteFile(h.layout.Owner(id), []byte(`{"uid": "u"}`), 0o640),
			store.WriteCheckpoint(h.layout, id, manifest.Checkpoint{Pod: pod, Definition: &manifest.Definition{Kind: kind}}),
			store.WriteSource(h.layout, id, store.SourceRecord{Path: "/m/f", Hash: "h"}))
		if err != nil {
			t.Fatal(err)
		}
		h.sync()
		if adopted := h.job("j").Pods[0].Name == "j"; adopted != want {
			t.Errorf("%s: pods %+v", kind, h.job("j").Pods)
		}
	}
}

// TestUndecided checks that the supervisor keeps the pod that an older podrun started from the file of a Job
// until the Job has decided whether it adopts the pod.
func TestUndecided(t *testing.T) {
	h := newHost(t, job("suspend: true, "))
	changes := 0
	h.c.options.Changed = func() { changes++ }
	merged := func() *source.Snapshot {
		snapshot, _ := h.c.Merge(&source.Snapshot{Dirs: []source.Dir{{Path: "/m", State: source.Present}}}, h.want)
		return snapshot
	}
	if may, why := merged().MayDefine("/m/f"); !may || !strings.Contains(why, "not started the Jobs of /m/f yet") {
		t.Errorf("before the first decision: %t, %s", may, why)
	}
	if may, _ := merged().MayDefine("/m/other"); may {
		t.Error("a file without Jobs may define a pod")
	}
	if _, err := h.c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if may, why := merged().MayDefine("/m/f"); may || changes != 1 {
		t.Errorf("after the decision: %t, %s; %d signals", may, why, changes)
	}
}

// TestSameName checks that a new Job is independent of a deleted Job with the same name, even if the
// supervisor has not noticed the deletion yet. It must not count the removed pod as its own failed pod,
// and must not keep the definition of the deleted Job.
func TestSameName(t *testing.T) {
	for _, applied := range []bool{true, false} {
		h := newHost(t, "")
		put := func(image string) {
			h.t.Helper()
			h.define(job(""))
			j := h.want.Jobs[0].Job
			j.UID, j.Spec.Template.Spec.Containers[0].Image = types.UID(image), image
			h.define("")
			if err := store.WriteJob(h.layout, &store.JobRecord{Job: j}); err != nil {
				h.t.Fatal(err)
			}
		}
		put("first")
		h.sync()
		if applied {
			id := identity.Pod{Namespace: "default", Name: "j"}
			if err := store.WriteSource(h.layout, id, store.SourceRecord{Path: h.layout.Job("default", "j"), Hash: "h"}); err != nil {
				t.Fatal(err)
			}
		}
		delete(h.phases, "j") // podrun delete job j
		put("second")
		changes := 0
		h.c.options.Changed = func() { changes++ }
		h.sync()
		if r := h.job("j"); (r.Pods[0].Name == "j") == applied || changes == 0 || h.c.pods[0].Object.Spec.Containers[0].Image != "second" {
			t.Errorf("applied %t: %+v, %d signals, pods %+v", applied, r, changes, h.c.pods)
		}
	}
}

// TestDeletedCronJobStaysDeleted checks that the record of a deleted CronJob remains while its file cannot
// be read.
func TestDeletedCronJobStaysDeleted(t *testing.T) {
	h := newHost(t, cronJob(""))
	h.sync()
	r := func() *store.CronJobRecord {
		records, err := store.ReadRecords(h.layout)
		if err != nil || len(records.CronJobs) != 1 {
			t.Fatalf("%+v, %v", records, err)
		}
		return records.CronJobs[0]
	}
	c := r()
	c.CronJob.DeletionTimestamp = &metav1.Time{Time: h.now}
	if err := store.WriteCronJob(h.layout, c); err != nil {
		t.Fatal(err)
	}
	h.sync()
	if !r().Deleted {
		t.Fatalf("%+v", r())
	}
	unreachable := &source.Snapshot{Dirs: []source.Dir{{Path: "/m", State: source.Unreachable}}}
	h.boot()
	h.c.Merge(unreachable, source.Merge(unreachable))
	if _, err := h.c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Hour)
	h.sync()
	if got := r(); !got.Deleted || len(h.jobs()) > 0 {
		t.Errorf("%+v, Jobs %v", got, h.jobs())
	}
}

// TestChangeAfterPass checks that Run notices a record that a command writes immediately after a pass has
// released the lock.
func TestChangeAfterPass(t *testing.T) {
	h := newHost(t, job(""))
	other := h.want.Jobs[0].DeepCopy()
	other.Name, other.UID = "other", "other"
	var once sync.Once
	ctx, cancel := patience.Context(t.Context(), patience.OnFake)
	defer cancel()
	h.c.options.Changed = func() {
		once.Do(func() {
			time.Sleep(20 * time.Millisecond) // two changes within a tick of the kernel's clock have the same time
			if err := store.WriteJob(h.layout, &store.JobRecord{Job: other}); err != nil {
				t.Error(err)
			}
		})
		if h.job("other") != nil && len(h.job("other").Pods) > 0 {
			cancel()
		}
	}
	h.c.Merge(&source.Snapshot{}, h.want)
	<-h.c.wake
	h.c.Run(ctx)
	if r := h.job("other"); r == nil || len(r.Pods) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestManyPods checks a Job with many completions: its record keeps the newest pods only, no two of its pods
// have the same name (the second would count as ended), and every index is completed once.
func TestManyPods(t *testing.T) {
	const completions = 2000
	r := &store.JobRecord{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "u"}, Spec: batchv1.JobSpec{Completions: ptr.To(int32(completions)), CompletionMode: ptr.To(batchv1.IndexedCompletion)}}}
	var states map[string]schedule.PodState
	indexes := map[int32]bool{}
	for range completions {
		r.Job = manifest.WithDefaults(r.Job)
		r = schedule.Job(schedule.JobInput{Record: r, Pods: states, Now: time.Unix(1, 0)}).Record
		last := r.Pods[len(r.Pods)-1]
		if slices.ContainsFunc(r.Pods[:len(r.Pods)-1], func(p store.JobPod) bool { return p.Name == last.Name }) || indexes[*last.Index] {
			t.Fatalf("two pods have the name %s or the index %d", last.Name, *last.Index)
		}
		indexes[*last.Index] = true
		states = map[string]schedule.PodState{last.Name: {Pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}}}
	}
	r = schedule.Job(schedule.JobInput{Record: r, Pods: states, Now: time.Unix(1, 0)}).Record
	data, err := json.Marshal(r)
	if err != nil || len(data) > 100_000 {
		t.Errorf("the record has %d bytes, %v", len(data), err)
	}
	if s := r.Job.Status; !lifecycle.JobHas(r.Job, batchv1.JobComplete) || s.Succeeded != completions || s.CompletedIndexes != "0-1999" || len(r.Pods) != 500 {
		t.Errorf("%d pods, %+v", len(r.Pods), s)
	}
}

// TestStartingPodIsNotRemoved checks that a Job regards a pod as removed only if it did not exist after the
// supervisor knew that it must not start it. Before, the supervisor may have been starting it.
func TestStartingPodIsNotRemoved(t *testing.T) {
	h := newHost(t, job(""))
	pass := func() {
		h.c.Merge(&source.Snapshot{Dirs: []source.Dir{{Path: "/m", State: source.Present}}}, h.want)
		if _, err := h.c.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	id := identity.Pod{Namespace: "default", Name: "j"}
	if !h.c.Has(id) {
		t.Fatal("the Job has no pod")
	}
	h.define(job("suspend: true, "))
	pass()
	if r := h.job("j"); len(r.Pods) != 1 || r.Pods[0].State != store.JobPodStopping || h.c.Has(id) {
		t.Fatalf("%+v", r)
	}
	pass()
	if r := h.job("j"); len(r.Pods) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestReads checks that an event of one pod does not read the states of all pods.
func TestReads(t *testing.T) {
	h := newHost(t, job("")+"---\n"+strings.ReplaceAll(job(""), "name: j", "name: k"))
	h.sync()
	read := func() []string {
		h.reads = nil
		if _, err := h.c.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return h.reads
	}
	if got := read(); len(got) > 0 {
		t.Errorf("without an event: %v", got)
	}
	h.phases["k"] = corev1.PodSucceeded
	h.c.NoteChange(identity.Pod{Namespace: "default", Name: "k", UID: "u"})
	if got := read(); !slices.Equal(got, []string{"k"}) || !lifecycle.JobHas(h.job("k").Job, batchv1.JobComplete) {
		t.Errorf("after an event of k: %v, %+v", got, h.job("k").Job.Status)
	}
	h.now = h.now.Add(pollActive)
	if got := read(); !slices.Equal(got, []string{"j"}) {
		t.Errorf("after the interval: %v", got)
	}
}

// TestUnremovableJobs checks that a CronJob with concurrencyPolicy Replace does not start Jobs without limit if
// podrun cannot remove the pods of the replaced ones.
func TestUnremovableJobs(t *testing.T) {
	h := newHost(t, cronJob("concurrencyPolicy: Replace, "))
	h.sync()
	for range 130 {
		h.now = h.now.Add(time.Minute)
		h.c.polled = time.Time{}
		h.c.Merge(&source.Snapshot{Dirs: []source.Dir{{Path: "/m", State: source.Present}}}, h.want)
		if _, err := h.c.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range h.c.pods {
			h.phases[h.c.pods[i].Object.Name] = corev1.PodRunning // and never removed
		}
	}
	if n := len(h.jobs()); n != 101 || !slices.ContainsFunc(h.warns, func(s string) bool { return strings.Contains(s, "has not removed the pods of 100 earlier Jobs") }) {
		t.Errorf("%d Jobs, warnings %q", n, h.warns)
	}
}

// TestWarnsAgain checks that podrun forgets the last warning about an object with the object.
func TestWarnsAgain(t *testing.T) {
	h := newHost(t, "")
	for want := 1; want <= 2; want++ {
		h.define(strings.Replace(cronJob(""), "* * * * *", "0 0 31 2 *", 1))
		h.sync()
		h.define("")
		h.sync()
		if len(h.warns) != want || len(h.c.warned) != 0 {
			t.Errorf("warnings %q, remembered %v", h.warns, h.c.warned)
		}
	}
}

// TestDependencies checks that the pods of a CronJob get the objects with which a command has applied it, and
// the changed ones after another command.
func TestDependencies(t *testing.T) {
	h := newHost(t, cronJob(""))
	c := h.want.CronJobs[0].CronJob
	h.define("")
	h.want.Shared.ConfigMaps["default/m"] = &corev1.ConfigMap{Data: map[string]string{"k": "of the directory"}}
	c.UID, c.CreationTimestamp = "u", metav1.NewTime(h.now)
	changes := 0
	h.c.options.Changed = func() { changes++ }
	apply := func(value string) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}, Data: map[string]string{"k": value}}
		if err := store.WriteCronJob(h.layout, &store.CronJobRecord{CronJob: c, Dependencies: &manifest.Dependencies{ConfigMaps: []*corev1.ConfigMap{m}}}); err != nil {
			t.Fatal(err)
		}
	}
	value := func() string {
		_, want := h.c.Merge(&source.Snapshot{}, h.want)
		return want.Objects(len(want.Pods) - 1).ConfigMaps["default/m"].Data["k"]
	}
	apply("first")
	h.now = h.now.Add(time.Minute)
	h.sync()
	if got := value(); got != "first" || changes == 0 {
		t.Errorf("%q after %d changes", got, changes)
	}
	changes = 0
	apply("second")
	h.sync()
	if got := value(); got != "second" || changes == 0 {
		t.Errorf("%q after %d changes", got, changes)
	}
}
