package ownership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestLockTimeoutHasItsKind covers an apply and a delete that wait for another podrun process. If
// --timeout expires, the error must be of kind Deadline, with exit code 124.
func TestLockTimeoutHasItsKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
		r.MustApply(text, run.OutcomeCreated)
		e := r.Engine()
		for _, path := range []string{r.Layout().Locks().Pod(identity.Pod{Namespace: "default", Name: "web"}), r.Layout().Locks().Node()} {
			held, err := store.Lock(t.Context(), path, "process 1 (podrun apply) [aa]", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = run.ApplyPods(t.Context(), e, rig.Load(t, text), run.ApplyOptions{Timeout: time.Minute, AllowKubelet: true})
			rig.WantErr(t, err, problem.Deadline, "process 1 (podrun apply)", "timed out after 1m0s")
			known, err := lookup.Find(t.Context(), e, lookup.Selector{})
			if err != nil {
				t.Fatal(err)
			}
			results, err := run.DeletePods(t.Context(), e, known, run.DeleteOptions{Timeout: time.Minute})
			if err == nil {
				err = results[0].Err
			}
			rig.WantErr(t, err, problem.Deadline, "process 1 (podrun apply)", "timed out after 1m0s")
			held.Unlock()
		}
		r.MustDelete()
	})
}
