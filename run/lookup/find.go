package lookup

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// Selector selects pods. An empty field matches all pods. If a pod's namespace is unknown
// (discover.StoredPod), its namespace is empty, and its UID is its name.
type Selector struct {
	Namespace string
	Names     []string
	UID       string
}

func (sel Selector) Matches(id identity.Pod) bool {
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

// Remaining returns the namespace/name of each of the given pods that is still on this host. It
// does not call the runtime, which may hang.
func Remaining(n *node.Node, pods []identity.Pod) []string {
	var out []string
	for _, id := range pods {
		if r, err := store.ReadOwner(n.Layout(), id); r != nil || err != nil {
			out = append(out, id.String())
		}
	}
	return out
}

// Find lists podrun's pods that match sel, sorted by namespace and name. The result includes pods
// with a sandbox in the runtime, and pods with only a directory, which an interrupted delete may
// leave behind. The error is of kind Runtime if the runtime does not respond, and Deadline if it
// does not respond before ctx ends.
//
// The time to find pods with given names in one namespace does not depend on how many other pods
// are on the host.
func Find(ctx context.Context, n *node.Node, sel Selector) ([]observe.Known, error) {
	searches := []Selector{sel}
	if sel.Namespace != "" && len(sel.Names) > 0 {
		searches = nil
		for _, name := range slices.Compact(slices.Sorted(slices.Values(sel.Names))) {
			searches = append(searches, Selector{Namespace: sel.Namespace, Names: []string{name}, UID: sel.UID})
		}
	}
	f := finding{found: map[string]identity.Pod{}, running: map[string]bool{}, known: map[string]observe.Known{}}
	for _, one := range searches {
		if err := search(ctx, n, one, f); err != nil {
			return nil, err
		}
	}
	var out []observe.Known
	for _, id := range f.found {
		if !sel.Matches(id) {
			continue
		}
		if !f.running[id.UID] && !store.HasCheckpoint(n.Layout(), id.UID) {
			// The pod was removed, or replaced by one with another UID, during the call to the runtime.
			continue
		}
		k, read := f.known[id.UID]
		if !read || k.ID != id || k.Pod == nil {
			k = observe.ReadKnown(n.Layout(), id)
		}
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID.String() < out[j].ID.String() })
	return out, nil
}

// finding holds the pods of a search, by UID.
type finding struct {
	found   map[string]identity.Pod  // pods that may match
	running map[string]bool          // pods that have a sandbox in the runtime
	known   map[string]observe.Known // pods whose checkpoints search read during the call to the runtime
}

// search adds the pods that may match to f.
func search(ctx context.Context, n *node.Node, sel Selector, f finding) error {
	stored, labels, err := stored(n, sel)
	if err != nil {
		return err
	}
	for _, id := range stored {
		f.found[id.UID] = id
	}
	known := make(chan map[string]observe.Known, 1)
	go func() {
		read := map[string]observe.Known{}
		for _, id := range stored {
			if sel.Matches(id) {
				read[id.UID] = observe.ReadKnown(n.Layout(), id)
			}
		}
		known <- read
	}()
	sandboxes, err := observe.ReadSandboxes(ctx, n.Client, n.Layout(), labels)
	if err != nil {
		return reconcile.ReadHostError(ctx, &problem.Error{Kind: problem.Runtime, Object: "runtime", Err: err})
	}
	for _, s := range sandboxes {
		if s.Managed {
			f.found[s.Pod.UID], f.running[s.Pod.UID] = s.Pod, true
		}
	}
	maps.Copy(f.known, <-known)
	return nil
}

// stored lists the pods that have a directory and may match sel. The result may include other pods,
// so the caller must filter it. It also returns the labels with which to list their sandboxes, or
// nil to list all sandboxes.
func stored(n *node.Node, sel Selector) ([]identity.Pod, map[string]string, error) {
	if sel.Namespace == "" || len(sel.Names) != 1 {
		all, err := store.StoredPods(n.Layout())
		return all, nil, err
	}
	id := identity.Pod{Namespace: sel.Namespace, Name: sel.Names[0]}
	named, err := store.StoredNamed(n.Layout(), id)
	for _, p := range named {
		if p.Namespace == "" && sel.Matches(p) {
			// The labels of the pod's sandbox may include the pod's name.
			return named, nil, err
		}
	}
	return named, map[string]string{identity.LabelPodNamespace: id.Namespace, identity.LabelPodName: id.Name}, err
}

// FindAll finds the pods of all selectors, each pod once. It calls missing for each selector without matches.
func FindAll(ctx context.Context, n *node.Node, selectors []Selector, missing func(Selector)) ([]observe.Known, error) {
	var out []observe.Known
	seen := map[string]bool{}
	for _, sel := range selectors {
		pods, err := Find(ctx, n, sel)
		if err != nil {
			return nil, err
		}
		if len(pods) == 0 {
			missing(sel)
		}
		for _, p := range pods {
			if !seen[p.ID.UID] {
				seen[p.ID.UID] = true
				out = append(out, p)
			}
		}
	}
	return out, nil
}
