package cli

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

// IsPodName reports whether the only argument is the name of an existing pod: a pod may have the name
// of a type, such as job.
func (a *App) IsPodName(given []string) bool {
	if len(given) != 1 {
		return false
	}
	settings, _, err := a.Settings.Settings()
	return err == nil && lookup.IsStored(settings.Layout(), a.NamespaceOrDefault("default"), given[0])
}

// NotFound returns the error for a named pod that is not on this host. If name is empty, it
// returns the error for a selection without pods. If name is the name of another resource type,
// NotFound returns the error of notPods.
func NotFound(name string) error {
	if grammar.Instead(name) != "" {
		return grammar.NotPods(name)
	}
	return run.NotFound(name)
}

// PickFlags select pods of the namespace by name, by labels, or all of them.
type PickFlags struct {
	selector string
	all      bool

	Named []lookup.Ref
	kinds KindFilter
	match func(map[string]string) bool
}

// KindFilter restricts the selection to pods that objects of these kinds define, as in 'stop deploy
// --all'. If it is empty or contains Pod, it selects all pods.
type KindFilter []string

// ParseSelected parses the arguments of a command that acts on pods. These are names. If several is true
// because --all or -l is set, they are one list of types.
func ParseSelected(given []string, several bool) (kinds KindFilter, named []lookup.Ref, err error) {
	if several && len(given) == 1 {
		kinds, err = KindsOf(given[0])
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
func (f KindFilter) all() bool { return len(f) == 0 || slices.Contains(f, apikind.Pod) }

// Selects reports whether --all or -l selects a pod. If the command line names a kind of workload, the
// selector applies to the labels of the workload, as in kubectl. A pod that an older release created has
// no recorded workload, so no kind selects it. If a pod's checkpoint is unreadable, its labels are
// unknown, so that only an empty selector matches the pod.
func (f KindFilter) Selects(k run.Known, selector string, match func(map[string]string) bool) bool {
	switch {
	case !f.all():
		return k.Definition != nil && slices.Contains(f, k.Definition.Kind) && match(k.Definition.Labels())
	case k.Pod == nil:
		return selector == ""
	}
	return match(k.Pod.Labels)
}

// Add adds the flags.
func (f *PickFlags) Add(set *pflag.FlagSet) {
	set.StringVarP(&f.selector, "selector", "l", "", "all pods of the namespace that match the label selector (app=web)")
	set.BoolVar(&f.all, "all", false, "all pods of the namespace")
}

// Check parses the names on the command line, and rejects an empty selection and
// contradictory flags.
func (f *PickFlags) Check(c *cobra.Command, given []string) error {
	several := f.all || f.selector != ""
	kinds, named, err := ParseSelected(given, several)
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
	f.kinds, f.Named = kinds, named
	return nil
}

// Targets returns the selection as the input of an operation. The caller must call check first. See
// run.Targets for mayBeEmpty.
func (f *PickFlags) Targets(ctx context.Context, a *App, node *run.Node, mayBeEmpty bool) (run.Targets, error) {
	named, err := a.PodsOfIDs(ctx, node, f.Named, SandboxID)
	return run.Targets{
		Namespace:  a.NamespaceOrDefault("default"),
		Named:      named,
		Matches:    func(k run.Known) bool { return f.kinds.Selects(k, f.selector, f.match) },
		MayBeEmpty: mayBeEmpty,
		NotFound:   NotFound,
	}, err
}

// Pods finds the selected pods, as run.Targets.Find does. The caller must call check first.
func (f *PickFlags) Pods(ctx context.Context, a *App, node *run.Node, mayBeEmpty bool) ([]run.Target, error) {
	targets, err := f.Targets(ctx, a, node, mayBeEmpty)
	if err != nil {
		return nil, err
	}
	return targets.Find(ctx, node)
}

// Everything reports whether all pods are selected. It is then not an error if there are none.
func (f *PickFlags) Everything() bool { return f.all && f.selector == "" }

// NamespaceOrDefault returns the namespace of the flags or settings, or other if neither is set.
func (a *App) NamespaceOrDefault(other string) string {
	if a.Namespace == "" {
		return other
	}
	return a.Namespace
}
