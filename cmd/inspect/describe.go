package inspect

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

type describeFlags struct {
	allNamespaces bool
	selector      string
	events        bool
}

// NewDescribe returns the command describe.
func NewDescribe(a *cli.App) *cobra.Command {
	f := &describeFlags{}
	c := &cobra.Command{
		Use:   "describe [NAME... | TYPE[,TYPE...] [NAME...] | TYPE/NAME...]",
		Short: "Show pods in detail, with their events",
		Long: `Show pods as 'kubectl describe pod' does: container states, conditions, volumes
and events. Without a NAME, show all pods of the namespace. For a workload
(deploy/web), show its replicas, its pod template and the events of its pods; for a
Service, its ports and endpoints; for a ConfigMap, its data; for a Secret, the sizes
of its values.`,
		Example: `  podrun describe web
  podrun describe deploy web
  podrun describe -l app=web
  podrun describe cm settings`,
		RunE: func(c *cobra.Command, named []string) error {
			s, ok, err := parseSelection(named)
			if err != nil {
				return err
			}
			if ok && !a.IsPodName(named) {
				return describeObjects(a, c, f, s)
			}
			return runDescribe(a, c, f, named)
		},
	}
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "pods in all namespaces")
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector of the pods (app=web,tier!=db)")
	c.Flags().BoolVar(&f.events, "show-events", true, "show the pods' events")
	return c
}

// describing contains what describe requires to read and select objects.
type describing struct {
	node  *run.Node
	r     *cli.Renderer // prints warnings
	match func(map[string]string) bool
}

// open connects to the runtime. The caller must call closeAll.
func (f *describeFlags) open(a *cli.App, c *cobra.Command) (d describing, closeAll func(), err error) {
	if d.match, err = grammar.ParseSelector(f.selector); err != nil {
		return d, nil, grammar.Usage(c, err)
	}
	d.r = &cli.Renderer{W: a.Streams.Err}
	d.node, closeAll, err = a.OpenNode(c.Context(), d.r, ownruntime.Reads)
	return d, closeAll, err
}

func runDescribe(a *cli.App, c *cobra.Command, f *describeFlags, given []string) error {
	refs, err := grammar.PodRefs(given, false)
	if err != nil {
		return err
	}
	d, closeAll, err := f.open(a, c)
	if err != nil {
		return err
	}
	defer closeAll()
	if refs, err = a.PodsOfIDs(c.Context(), d.node, refs, cli.AnyID); err != nil {
		return err
	}
	pods, missing, err := readPods(c.Context(), a, d.node, f.allNamespaces, refs)
	if err != nil || missing != nil && len(pods) == 0 {
		return errors.Join(err, missing)
	}
	shown := 0
	for i := range pods {
		pod := &pods[i]
		if !d.match(pod.Labels) {
			continue
		}
		events := readEvents(d.node, d.r, f.events, pod)
		if shown++; shown > 1 {
			fmt.Fprint(a.Streams.Out, "\n\n")
		}
		if err := view.DescribePod(a.Raw.Out, a.ScreenOf(a.OutTerminal), pod, events, a.ObservedAt[pod.UID], time.Now()); err != nil {
			return err
		}
	}
	if shown == 0 {
		fmt.Fprintln(a.Streams.Err, "no pods found")
	}
	return missing
}

// readEvents reads a pod's events. If they are not wanted, it returns nil, and no table is
// printed. If the journal is unreadable, the pod is described anyway.
func readEvents(node *run.Node, r *cli.Renderer, wanted bool, pod *corev1.Pod) []event.Event {
	if !wanted {
		return nil
	}
	events, err := lookup.Events(node, string(pod.UID))
	if err != nil {
		r.Warn(problem.List{{Object: "pod " + pod.Namespace + "/" + pod.Name, Warning: true, Message: "cannot show its events: " + err.Error(),
			Hint: "podrun starts a new journal when the next command changes the pod"}})
	}
	if events == nil {
		events = []event.Event{}
	}
	return events
}
