package cmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// pickFlags select pods of the namespace by name, by labels, or all of them.
type pickFlags struct {
	selector string
	all      bool

	named []lookup.Ref
	kinds kindFilter
	match func(map[string]string) bool
	// workloads are the names of the workloads by which the user selected pods, by the names of these pods
	workloads map[string]lookup.Ref
}

// kindFilter restricts the selection to pods that objects of these kinds define, as in 'stop deploy
// --all'. If it is empty or contains Pod, it selects all pods.
type kindFilter []string

// parseSelected parses the arguments of a command that acts on pods. These are names. If several is true
// because --all or -l is set, they are one list of types.
func parseSelected(given []string, several bool) (kinds kindFilter, named []lookup.Ref, err error) {
	if several && len(given) == 1 {
		kinds, err = kindsOf(given[0])
	}
	for _, kind := range kinds {
		if t := apikind.Of(kind); t != nil && (t.Referred() || t.Network() && !strings.EqualFold(given[0], "all")) {
			return nil, nil, grammar.NotPods(t.Names[0])
		}
	}
	if err != nil || len(kinds) > 0 {
		return kinds, nil, err
	}
	named, err = grammar.PodRefs(given, false)
	return nil, named, err
}

// all reports whether every pod is selected.
func (f kindFilter) all() bool { return len(f) == 0 || slices.Contains(f, apikind.Pod) }

// selects reports whether --all or -l selects a pod. If the command line names a kind of workload, the
// selector applies to the labels of the workload, as in kubectl. A pod that an older release created has
// no recorded workload, so no kind selects it. If a pod's checkpoint is unreadable, its labels are
// unknown, so that only an empty selector matches the pod.
func (f kindFilter) selects(k run.Known, selector string, match func(map[string]string) bool) bool {
	switch {
	case !f.all():
		return k.Definition != nil && slices.Contains(f, k.Definition.Kind) && match(k.Definition.Labels())
	case k.Pod == nil:
		return selector == ""
	}
	return match(k.Pod.Labels)
}

func (f *pickFlags) add(set *pflag.FlagSet) {
	set.StringVarP(&f.selector, "selector", "l", "", "all pods of the namespace that match the label selector (app=web)")
	set.BoolVar(&f.all, "all", false, "all pods of the namespace")
}

// check parses the names on the command line, and rejects an empty selection and
// contradictory flags.
func (f *pickFlags) check(c *cobra.Command, given []string) error {
	several := f.all || f.selector != ""
	kinds, named, err := parseSelected(given, several)
	if err != nil {
		return err
	}
	switch {
	case several && len(named) > 0:
		return problem.UsageError(errors.New("--all and -l cannot be used with names"), "omit "+shellword.Join(given)+" for all pods, or omit --all and -l for those pods")
	case !several && len(named) == 0:
		return problem.UsageError(errors.New("specify pods by name, -l SELECTOR or --all"), "use '"+c.CommandPath()+" NAME', or '"+c.CommandPath()+" --all' for all pods of the namespace; run 'podrun get' to list them")
	}
	if f.match, err = grammar.ParseSelector(f.selector); err != nil {
		return grammar.Usage(c, err)
	}
	f.kinds, f.named = kinds, named
	return nil
}

// pods finds the selected pods. The caller must call check first. Unless goneIsFine is set,
// pods returns an error for each named pod that is not on this host, and an error if it finds
// no pod.
func (f *pickFlags) pods(ctx context.Context, a *app, e *run.Node, goneIsFine bool) ([]run.Known, error) {
	refs, err := a.podsOfIDs(ctx, e, f.named, sandboxID)
	if err != nil {
		return nil, err
	}
	namespace := a.namespaceOrDefault("default")
	selectors := []lookup.Selector{{Namespace: namespace}}
	if len(f.named) > 0 {
		selectors = nil
	}
	var missing error
	f.workloads = map[string]lookup.Ref{}
	for _, ref := range refs {
		names, err := grammar.Resolve(e.Layout(), namespace, []lookup.Ref{ref})
		missing = errors.Join(missing, err)
		for _, name := range names {
			selectors = append(selectors, lookup.Selector{Namespace: namespace, Names: []string{name}})
			if ref.Kind != "" && ref.Kind != apikind.Pod {
				f.workloads[name] = ref
			}
		}
	}
	pods, err := lookup.FindAll(ctx, e, selectors, func(sel lookup.Selector) {
		if len(sel.Names) > 0 {
			missing = errors.Join(missing, notFound(sel.Names[0]))
		}
	})
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(k run.Known) bool { return len(f.named) == 0 && !f.kinds.selects(k, f.selector, f.match) })
	if len(pods) == 0 && missing == nil {
		missing = notFound("")
	}
	if goneIsFine {
		missing = nil
	}
	return pods, missing
}

// refOf returns the name of the object by which the user selected a pod.
func (f *pickFlags) refOf(id identity.Pod) lookup.Ref {
	if ref, ok := f.workloads[id.Name]; ok {
		return ref
	}
	return lookup.Ref{Kind: apikind.Pod, Name: id.Name}
}

// perWorkload groups pods by the object by which the user selected them, in the order of the pods.
func (f *pickFlags) perWorkload(pods []run.Known) [][]run.Known {
	var out [][]run.Known
	at := map[lookup.Ref]int{}
	for _, k := range pods {
		ref := f.refOf(k.ID)
		i, ok := at[ref]
		if !ok {
			i, at[ref] = len(out), len(out)
			out = append(out, nil)
		}
		out[i] = append(out[i], k)
	}
	return out
}

// namespaceOrDefault returns the namespace of the flags or settings, or other if neither is set.
func (a *app) namespaceOrDefault(other string) string {
	if a.namespace == "" {
		return other
	}
	return a.namespace
}
