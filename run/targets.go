package run

import (
	"context"
	"errors"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
)

// Targets selects the existing pods on which an operation works.
type Targets struct {
	Namespace string
	Named     []lookup.Ref     // pods, or workloads that define pods
	Matches   func(Known) bool // selects from all pods of the namespace, instead of Named
	// MayBeEmpty means that it is not an error if named pods do not exist, or if no pod is selected.
	MayBeEmpty bool
	// NotFound returns the error for a name without a pod, or for a selection without pods if the name is empty.
	// The default is the function NotFound.
	NotFound func(name string) error
	// Working is called with the pods before the first of them is changed; it may be nil.
	Working func([]identity.Pod)
}

// Target is a selected pod.
type Target struct {
	Known
	// Ref is the object by which the user selected the pod: the pod, or a workload that defines it.
	Ref lookup.Ref
}

// Find finds the selected pods. Unless MayBeEmpty is set, it returns an error for each named pod that is not on
// this host, and an error if it finds no pod.
func (t Targets) Find(ctx context.Context, n *node.Node) ([]Target, error) {
	missing := error(nil)
	notFound := t.NotFound
	if notFound == nil {
		notFound = NotFound
	}
	var selectors []lookup.Selector
	if len(t.Named) == 0 {
		selectors = []lookup.Selector{{Namespace: t.Namespace}}
	}
	workloads := map[string]lookup.Ref{}
	for _, ref := range t.Named {
		names, err := ref.ResolveAll(n.Layout(), t.Namespace)
		missing = errors.Join(missing, err)
		for _, name := range names {
			selectors = append(selectors, lookup.Selector{Namespace: t.Namespace, Names: []string{name}})
			if ref.Kind != "" && ref.Kind != kindPod {
				workloads[name] = ref
			}
		}
	}
	pods, err := lookup.FindAll(ctx, n, selectors, func(sel lookup.Selector) {
		if len(sel.Names) > 0 {
			missing = errors.Join(missing, notFound(sel.Names[0]))
		}
	})
	if err != nil {
		return nil, err
	}
	if len(t.Named) == 0 {
		pods = slices.DeleteFunc(pods, func(k Known) bool { return !t.Matches(k) })
	}
	var out []Target
	for _, k := range pods {
		ref, ok := workloads[k.ID.Name]
		if !ok {
			ref = lookup.Ref{Kind: kindPod, Name: k.ID.Name}
		}
		out = append(out, Target{Known: k, Ref: ref})
	}
	switch {
	case t.MayBeEmpty:
		return out, nil
	case len(out) == 0 && missing == nil:
		missing = notFound("")
	}
	return out, missing
}

// work finds the selected pods, and passes them to Working.
func (t Targets) work(ctx context.Context, n *node.Node) ([]Known, error) {
	found, err := t.Find(ctx, n)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	pods := KnownOf(found)
	t.working(pods)
	return pods, nil
}

func (t Targets) working(pods []Known) {
	if t.Working != nil {
		t.Working(idsOf(pods))
	}
}

// KnownOf returns the pods of targets.
func KnownOf(targets []Target) (out []Known) {
	for _, t := range targets {
		out = append(out, t.Known)
	}
	return out
}

// Replicas groups targets by the object by which the user selected them, in the order of the targets.
func Replicas(targets []Target) (out [][]Target) {
	at := map[lookup.Ref]int{}
	for _, t := range targets {
		i, ok := at[t.Ref]
		if !ok {
			i = len(out)
			at[t.Ref] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	return out
}

// NotFound returns the error for a named pod that is not on this host, or for a selection without pods if the name is
// empty.
func NotFound(name string) error {
	err := &problem.Error{Kind: problem.Failed, Object: "pod " + name, Err: problem.ErrNotFound, Hint: "run 'podrun get -A' to list all pods"}
	if name == "" {
		err.Object = ""
		err.Err = errors.New("no pods match the selection")
	}
	return err
}
