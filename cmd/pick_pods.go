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

// targets returns the selection as the input of an operation. The caller must call check first. See
// run.Targets for mayBeEmpty.
func (f *pickFlags) targets(ctx context.Context, a *app, e *run.Node, mayBeEmpty bool) (run.Targets, error) {
	named, err := a.podsOfIDs(ctx, e, f.named, sandboxID)
	return run.Targets{
		Namespace:  a.namespaceOrDefault("default"),
		Named:      named,
		Matches:    func(k run.Known) bool { return f.kinds.selects(k, f.selector, f.match) },
		MayBeEmpty: mayBeEmpty,
		NotFound:   notFound,
	}, err
}

// pods finds the selected pods, as run.Targets.Find does. The caller must call check first.
func (f *pickFlags) pods(ctx context.Context, a *app, e *run.Node, mayBeEmpty bool) ([]run.Target, error) {
	targets, err := f.targets(ctx, a, e, mayBeEmpty)
	if err != nil {
		return nil, err
	}
	return targets.Find(ctx, e)
}

// everything reports whether all pods are selected. It is then not an error if there are none.
func (f *pickFlags) everything() bool { return f.all && f.selector == "" }

// namespaceOrDefault returns the namespace of the flags or settings, or other if neither is set.
func (a *app) namespaceOrDefault(other string) string {
	if a.namespace == "" {
		return other
	}
	return a.namespace
}
