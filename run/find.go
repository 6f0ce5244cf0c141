package run

import (
	"context"
	"slices"
	"sort"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// Selector chooses pods. Empty fields choose all. A pod whose namespace is not
// known (discover.StoredPod) is in no namespace: its UID, which is its name then,
// chooses it.
type Selector struct {
	Namespace string
	Names     []string
	UID       string
}

func (sel Selector) matches(id identity.Pod) bool {
	if sel.Namespace != "" && sel.Namespace != id.Namespace && !(id.Namespace == "" && slices.Contains(sel.Names, id.UID)) || sel.UID != "" && sel.UID != id.UID {
		return false
	}
	if len(sel.Names) == 0 {
		return true
	}
	for _, n := range sel.Names {
		if n == id.Name {
			return true
		}
	}
	return false
}

// Remaining returns those of the pods that podrun has not removed from this host, as
// namespace/name. It does not ask the runtime, which may hang.
func (e *Engine) Remaining(pods []identity.Pod) []string {
	var out []string
	for _, id := range pods {
		if r, err := store.ReadOwner(e.Layout(), id); r != nil || err != nil {
			out = append(out, id.String())
		}
	}
	return out
}

// Find lists podrun's pods that match, by namespace and name: those of which the
// runtime has a sandbox, and those that have a directory, which are what an
// interrupted delete leaves. The error is of kind Runtime where the runtime does
// not answer, and Deadline where it did not before the end of ctx.
func (e *Engine) Find(ctx context.Context, sel Selector) ([]Known, error) {
	found := map[string]identity.Pod{}
	stored, err := store.StoredPods(e.Layout())
	if err != nil {
		return nil, err
	}
	for _, id := range stored {
		found[id.UID] = id
	}
	sandboxes, err := observe.ReadSandboxes(ctx, e.Client, e.Layout(), nil)
	if err != nil {
		return nil, reconcile.OrEnded(ctx, &problem.Error{Kind: problem.Runtime, Object: "runtime", Err: err})
	}
	running := map[string]bool{}
	for _, s := range sandboxes {
		if s.Managed {
			found[s.Pod.UID], running[s.Pod.UID] = s.Pod, true
		}
	}
	var out []Known
	for _, id := range found {
		if !sel.matches(id) {
			continue
		}
		k := observe.ReadKnown(e.Layout(), id)
		if k.Pod == nil && k.Broken == nil && !running[id.UID] && !store.HasCheckpoint(e.Layout(), id.UID) {
			continue // removed, or replaced under another UID, while the runtime was asked
		}
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID.String() < out[j].ID.String() })
	return out, nil
}
