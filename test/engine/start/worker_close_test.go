package start

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// openBelow lists the open descriptors of this process for files below a directory.
func openBelow(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			open = append(open, target)
		}
	}
	return open
}

// sharedPuller returns an engine whose commands share a puller, as the workers of a supervisor
// do.
func sharedPuller(r *rig.Host) *run.Node {
	e := r.Engine()
	e.Puller = e.NewPuller()
	return e
}

// forgotten checks that the engine's puller has no journal of the pod, and therefore no longer
// forwards the pod's events.
func forgotten(r *rig.Host, e *run.Node, id identity.Pod) {
	r.T.Helper()
	r.Forget()
	c := imagepull.Container{Name: "puller", Image: "registry.example/app:1", Policy: "IfNotPresent", FieldPath: "spec.containers{puller}"}
	pulls := e.Puller.Start(r.T.Context(), imagepull.Plan{ID: id, Images: []imagepull.Image{{Name: c.Image, Ref: c.Image, Policy: c.Policy, Containers: []imagepull.Container{c}}}})
	defer pulls.Stop()
	if _, err := pulls.Wait(r.T.Context(), c.Name); err != nil {
		r.T.Fatal(err)
	}
	if r.Emitted(event.PulledImage+" puller", "") {
		r.T.Errorf("the puller has a journal of pod %s", id)
	}
}

// TestFailedResumeClosesTheJournal covers a pod that a supervisor tries to resume while the runtime
// does not respond. The pod's journal once remained open, with two descriptors for each attempt.
func TestFailedResumeClosesTheJournal(t *testing.T) {
	r := rig.New(t)
	id := r.MustApply(rig.Web("Always"), run.OutcomeCreated).ID
	dir := string(r.Layout().Pod(id.UID))
	away := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Error(err)
		}
	}
	for name, fault := range map[string]func() (end func()){
		"the runtime does not answer": func() func() { return r.Runtime.Fault("ListPodSandbox", critest.Fault{When: critest.Before}) },
		"the journal cannot be opened": func() func() {
			away(dir, dir+".away")
			return func() { away(dir+".away", dir) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := sharedPuller(r)
			facts, err := e.HostFacts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var end func()
			// podrun calls this function after it has read the checkpoint.
			e.Facts = func(context.Context) (host.Facts, error) {
				end = fault()
				return facts, nil
			}
			lock, err := e.Locks().LockPod(t.Context(), id, store.PurposeRun)
			if err != nil {
				t.Fatal(err)
			}
			_, err = reconcile.Resume(t.Context(), e, id, lock)
			lock.Release()
			end()
			if err == nil {
				t.Fatal("no error")
			}
			if open := openBelow(t, dir); len(open) > 0 {
				t.Errorf("open: %q", open)
			}
			forgotten(r, e, id)
		})
	}
	r.MustDelete()
}

// TestPreemptForgetsTheJournal checks that the puller does not keep the journal of a preempted pod,
// as it once did.
func TestPreemptForgetsTheJournal(t *testing.T) {
	r := rig.New(t)
	r.Settings.MaxPods = 1
	id := r.MustApply(rig.Web("Always"), run.OutcomeCreated).ID
	e := sharedPuller(r)
	results, err := run.ApplyPods(t.Context(), e, rig.Load(t, criticalText("critical")), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
	if err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	if open := openBelow(t, string(r.Layout().Pod(id.UID))); len(open) > 0 {
		t.Errorf("open: %q", open)
	}
	forgotten(r, e, id)
	r.MustDelete()
}

// TestRefusedPodIsForgotten checks that a pod that --continue skips does not keep a worker.
func TestRefusedPodIsForgotten(t *testing.T) {
	r := rig.New(t)
	e := sharedPuller(r)
	refused := rig.PodText("refused", "Always", "nodeSelector: {no: node}", "containers: [{name: app, image: registry.example/app:1}]")
	results, err := run.ApplyPods(t.Context(), e, rig.Load(t, rig.Web("Always"), refused), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true, Continue: true})
	if err != nil || len(results) != 2 || rig.KindOf(results[1].Err) != problem.Refused {
		t.Fatal(results, err)
	}
	forgotten(r, e, results[1].ID)
	r.MustDelete()
}
