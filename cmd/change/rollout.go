package change

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/change"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewRollout returns `podrun rollout`.
func NewRollout(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "rollout",
		Short: "Return pods to earlier definitions, and recreate them",
		Long: `Show earlier definitions of pods, return to one of them, recreate pods, and wait until
pods are ready. podrun keeps the last five definitions of each pod until the pod is
deleted.`,
		Args: grammar.Args(grammar.KnownCommand),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newRolloutHistory(a), newRolloutRestart(a), newRolloutStatus(a), newRolloutUndo(a))
	return c
}

func newRolloutRestart(a *cli.App) *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "restart POD...",
		Short: "Recreate pods, with an annotation that records the time",
		Long: `Recreate pods from their definitions, with the annotation
kubectl.kubernetes.io/restartedAt, as kubectl does. 'podrun restart' recreates pods
without changing their definitions.`,
		Example: `  podrun rollout restart web`,
		RunE: func(c *cobra.Command, given []string) error {
			now := time.Now()
			return runChange(a, c, f, given, "", run.ChangeInput{Force: true, Define: func(of run.Current) (run.Redefinition, error) {
				return run.Redefined(change.Restarted(of.Pod, now), "restarted")
			}})
		},
	}
	f.addBasic(a, c)
	return c
}

func newRolloutUndo(a *cli.App) *cobra.Command {
	f := &changeFlags{}
	var revision int64
	c := &cobra.Command{
		Use:   "undo POD...",
		Short: "Return pods to an earlier definition",
		Long: `Return pods to the previous definition, or to the revision in --to-revision ('podrun
rollout history' lists the revisions). podrun applies the definition as 'podrun apply' does. A
ConfigMap or Secret to which both definitions refer keeps its current data.`,
		Example: `  podrun rollout undo web
  podrun rollout undo web --to-revision=2`,
		RunE: func(c *cobra.Command, given []string) error {
			if revision < 0 {
				return grammar.Usage(c, fmt.Errorf("--to-revision=%d: a revision is a positive number", revision))
			}
			unchanged := fmt.Sprintf("skipped rollback (current template already matches revision %d)", revision)
			return runChange(a, c, f, given, unchanged, run.ChangeInput{Define: run.Undo(revision)})
		},
	}
	f.required = true
	f.add(a, c)
	c.Flags().Int64Var(&revision, "to-revision", 0, "the `revision` to return to; 0 for the previous one")
	return c
}

func newRolloutHistory(a *cli.App) *cobra.Command {
	f := &changeFlags{}
	var revision int64
	c := &cobra.Command{
		Use:   "history POD...",
		Short: "Show the last definitions of pods",
		Long: `Show the last five definitions of pods, the current one last. CHANGE-CAUSE is the
annotation kubernetes.io/change-cause of the definition.`,
		Example: `  podrun rollout history web
  podrun rollout history web --revision=2`,
		RunE: func(c *cobra.Command, given []string) error {
			if revision < 0 {
				return grammar.Usage(c, fmt.Errorf("--revision=%d: a revision is a positive number", revision))
			}
			f.dryRun = cli.DryNone
			if err := f.check(a, c, given); err != nil {
				return err
			}
			return f.reads(a, c, false, func(node *run.Node, pods []run.Target) error { return printHistories(a, node, pods, revision) })
		},
	}
	f.PickFlags.Add(c.Flags())
	c.Flags().DurationVar(&f.timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	c.Flags().Int64Var(&revision, "revision", 0, "show the definition of this `revision`")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "output format: json or yaml for the definitions, or name for the names of the pods")
	return c
}

// printHistories prints the histories of pods, or one revision of each.
func printHistories(a *cli.App, node *run.Node, pods []run.Target, revision int64) error {
	var failed error
	var shown []corev1.Pod
	for _, replicas := range run.Replicas(pods) {
		k := replicas[0]
		revisions, err := run.History(node, k.ID)
		if err == nil && len(revisions) == 0 {
			err = errors.New("its checkpoint was not found")
		}
		var one run.Revision
		if err == nil && revision > 0 {
			one, err = run.FindRevision(revisions, revision)
			revisions = []run.Revision{one}
		}
		switch {
		case err != nil:
			failed = errors.Join(failed, problem.In("pod/"+k.ID.Name, err))
		case a.Output == "name":
			fmt.Fprintln(a.Streams.Out, shownRef(k.Ref))
		case a.Output != "":
			for _, r := range revisions {
				shown = append(shown, *manifest.Editable(r.Made.Pod))
			}
		case revision > 0:
			fmt.Fprintf(a.Streams.Out, "%s with revision #%d\n%s\n", shownRef(k.Ref), revision, describeTemplate(one.Made.Pod))
		default:
			fmt.Fprintf(a.Streams.Out, "%s \n%s\n", shownRef(k.Ref), historyTable(revisions))
		}
	}
	return errors.Join(failed, printDefinitions(a, shown))
}

// historyTable returns the table of kubectl rollout history.
func historyTable(revisions []run.Revision) string {
	var d view.Aligned
	d.Row("REVISION", "CHANGE-CAUSE")
	for _, r := range revisions {
		d.Row(strconv.FormatInt(int64(r.Number), 10), view.OrNone(r.Made.Pod.Annotations[manifest.ChangeCause]))
	}
	return d.String()
}

// describeTemplate describes a definition as kubectl describes a pod template.
func describeTemplate(pod *corev1.Pod) string {
	pod = manifest.Editable(pod)
	d := view.NewDescription(time.Time{})
	d.List("Labels", view.Pairs(pod.Labels))
	if len(pod.Annotations) > 0 {
		d.List("Annotations", view.AnnotationLines(pod.Annotations))
	}
	if len(pod.Spec.InitContainers) > 0 {
		d.Containers("Init Containers", pod, pod.Spec.InitContainers, nil)
	}
	d.Containers("Containers", pod, pod.Spec.Containers, nil)
	d.Volumes(pod.Spec.Volumes)
	out := "Pod Template:\n"
	for line := range strings.Lines(d.Text.String()) {
		out += "  " + line
	}
	return out
}

func newRolloutStatus(a *cli.App) *cobra.Command {
	pick := &cli.PickFlags{}
	watch, timeout := true, time.Duration(0)
	c := &cobra.Command{
		Use:   "status POD...",
		Short: "Wait until pods are ready",
		Long: `Wait until pods are ready, as 'podrun wait POD' does: while it waits, podrun restarts
the pods' containers and runs their probes. With --watch=false, it only prints the
state.`,
		Example: `  podrun rollout status web --timeout=30s`,
		RunE: func(c *cobra.Command, given []string) error {
			if err := pick.Check(c, given); err != nil {
				return err
			}
			return rolloutStatus(a, c, pick, watch, timeout)
		},
	}
	pick.Add(c.Flags())
	c.Flags().BoolVarP(&watch, "watch", "w", true, "wait until the pods are ready")
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait; 0 for no limit")
	a.AddQuiet(c)
	return c
}

func rolloutStatus(a *cli.App, c *cobra.Command, pick *cli.PickFlags, watch bool, timeout time.Duration) error {
	r := a.MessageRenderer()
	node, closeAll, err := a.OpenNode(c.Context(), r, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	ctx := c.Context()
	pods, err := pick.Pods(ctx, a, node, false)
	if err != nil {
		return err
	}
	for _, replicas := range run.Replicas(pods) {
		if err := rolloutOf(ctx, a, node, replicas, watch); err != nil {
			return err
		}
	}
	return nil
}

// rolloutOf waits until the replicas of a workload, or a pod, are ready.
func rolloutOf(ctx context.Context, a *cli.App, node *run.Node, replicas []run.Target, watch bool) error {
	ref := replicas[0].Ref
	name := fmt.Sprintf("%s %q", strings.ToLower(ref.Kind), ref.Name)
	reported, waited := -1, map[string]bool{}
	for {
		var waiting []run.Known
		for _, k := range run.KnownOf(replicas) {
			views, err := lookup.Pods(ctx, node, lookup.Selector{Namespace: k.ID.Namespace, Names: []string{k.ID.Name}, UID: k.ID.UID})
			if err != nil {
				return err
			}
			if !waited[k.ID.UID] && (len(views) != 1 || !podutil.IsPodReady(views[0].Object)) {
				waiting = append(waiting, k)
			}
		}
		if ready := len(replicas) - len(waiting); len(waiting) > 0 && ready != reported {
			reported = ready
			fmt.Fprintf(a.Streams.Out, "Waiting for %s rollout to finish: %d of %d updated replicas are available...\n", name, ready, len(replicas))
		}
		if len(waiting) == 0 {
			fmt.Fprintf(a.Streams.Out, "%s successfully rolled out\n", name)
			return nil
		}
		if !watch {
			return nil
		}
		if result := run.Wait(ctx, node, waiting[0], run.WaitOptions{For: lifecycle.GoalReady}); result.Err != nil {
			return result.Err
		}
		waited[waiting[0].ID.UID] = true
	}
}
