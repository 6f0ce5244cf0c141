package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/serve"
)

type topFlags struct {
	allNamespaces, containers, noHeaders, sum bool
	watch                                     bool
	selector                                  string
	sortBy                                    config.OneOf
}

// NewTop returns the command top.
func NewTop(a *cli.App) *cobra.Command {
	f := &topFlags{sortBy: config.OneOf{Value: "name", Of: []string{"name", "cpu", "memory"}}}
	c := &cobra.Command{
		Use:     "top [pod|container] [NAME...]",
		Aliases: []string{"stats"},
		Short:   "Show the CPU and memory usage of running pods",
		Long: `Show the CPU and memory usage of running pods and their containers, as 'kubectl
top pod' does: CPU in thousandths of a core, memory as the working set. The columns
after those of kubectl show the limits, and the usage as a percentage of the limit. A
pod has a limit if its resources set it, or if all of its containers have one.

podrun measures CPU usage over one second. If 'podrun serve' is running, top requests
the usage from serve, which averages it over the time since the previous request, if
that request was at most 30 s ago.

On a terminal, --watch shows a live view with the restarts and the last event of each
pod. Press n, c, m or r to sort the rows by name, CPU, memory or restarts, and q to
quit. Without a terminal, podrun prints all lines again at each measurement.`,
		Example: `  podrun top
  podrun top -w
  podrun top pod web --containers
  podrun top containers -A --sort-by=memory`,
		RunE: func(c *cobra.Command, given []string) error { return runTop(a, c, f, given) },
	}
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "pods in all namespaces")
	c.Flags().BoolVar(&f.containers, "containers", false, "show each container")
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector of the pods (app=web,tier!=db)")
	c.Flags().Var(&f.sortBy, "sort-by", "name, cpu or memory; the last two show the highest usage first")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "measure the usage repeatedly until podrun is interrupted; on a terminal, show a live view")
	c.Flags().BoolVar(&f.sum, "sum", false, "print the total as the last line")
	c.Flags().BoolVar(&f.noHeaders, "no-headers", false, "do not print column headings")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as json or yaml: a PodMetricsList of metrics.k8s.io/v1beta1")
	return c
}

// IsContainerType reports whether a word after top means containers.
func IsContainerType(word string) bool {
	return slices.Contains([]string{"container", "containers"}, strings.ToLower(word))
}

func runTop(a *cli.App, c *cobra.Command, f *topFlags, given []string) error {
	if len(given) > 0 && IsContainerType(given[0]) {
		f.containers, given = true, given[1:]
	}
	refs, err := grammar.PodRefs(given, false)
	if err != nil {
		return err
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml"); err != nil {
		return err
	}
	match, err := grammar.ParseSelector(f.selector)
	switch {
	case err != nil:
		return grammar.Usage(c, err)
	case len(refs) > 0 && (f.allNamespaces || f.selector != ""):
		return grammar.Usage(c, errors.New("names cannot be used with -A or -l"))
	case f.watch && a.Output != "":
		return grammar.Usage(c, errors.New("--watch prints a table and cannot be used with -o"))
	}
	messages := &heldMessages{to: a.Streams.Err}
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: messages}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	if refs, err = a.PodsOfIDs(c.Context(), node, refs, cli.AnyID); err != nil {
		return err
	}
	sel := lookup.Selector{Namespace: namespaceRead(a, f.allNamespaces)}
	named, missing := grammar.Resolve(node.Layout(), sel.Namespace, refs)
	if missing != nil {
		return missing
	}
	sel.Names = named
	measure := func(ctx context.Context) ([]serve.PodUsage, error) {
		pods, err := serve.Top(ctx, node, sel)
		if f.selector != "" {
			pods = slices.DeleteFunc(pods, func(p serve.PodUsage) bool { return !match(p.Labels) })
		}
		return pods, err
	}
	if f.watch {
		return watchUsage(c.Context(), a, f, node, messages, sel, measure)
	}
	pods, err := measure(c.Context())
	if err != nil {
		return err
	}
	for _, name := range named {
		if !slices.ContainsFunc(pods, func(p serve.PodUsage) bool { return p.ID.Name == name }) {
			return withoutUsage(node, sel.Namespace, name)
		}
	}
	limits, err := limitsOf(c.Context(), node, sel)
	if err != nil {
		return err
	}
	view.SortUsage(pods, f.sortBy.Value)
	return printUsage(a, pods, limits, f, len(named) == 1)
}

// withoutUsage returns the error for a named pod that is not running.
func withoutUsage(node *run.Node, namespace, name string) error {
	for _, p := range cli.StoredPods(node, namespace) {
		if p.Name == name {
			return &problem.Error{
				Kind:   problem.Failed,
				Object: "pod " + p.String(),
				Err:    errors.New("is not running"),
				Hint:   "run 'podrun get " + name + "' for its status",
			}
		}
	}
	return cli.NotFound(name)
}

func printUsage(a *cli.App, pods []serve.PodUsage, limits usageLimits, f *topFlags, single bool) error {
	if a.Output != "" {
		list := view.PodMetrics(pods)
		if single {
			return view.PrintData(a.Raw.Out, a.Output, list.Items[0])
		}
		return view.PrintData(a.Raw.Out, a.Output, list)
	}
	if len(pods) == 0 {
		fmt.Fprintln(a.Streams.Err, "no running pods found")
		return nil
	}
	return limitsTable(pods, limits, f).Print(a.Streams.Out)
}

// usageRow is the usage of a pod, or of one of its containers.
type usageRow struct {
	pod       identity.Pod
	container string
	usage     serve.Usage
}

// usageRows returns a row for each pod or, with --containers, for each container.
func usageRows(pods []serve.PodUsage, f *topFlags) (out []usageRow) {
	for _, p := range pods {
		if !f.containers {
			out = append(out, usageRow{p.ID, "", p.Usage})
			continue
		}
		for _, c := range p.Containers {
			out = append(out, usageRow{p.ID, c.Name, c.Usage})
		}
	}
	return out
}

// usageTable returns the table of the rows, with other columns after those of kubectl top.
func usageTable(rows []usageRow, f *topFlags, headings []string, more func(usageRow) []string) *view.Table {
	t := &view.Table{Namespaces: f.allNamespaces, NoHeaders: f.noHeaders}
	if f.containers {
		t.Head(append([]string{"POD", "NAME", "CPU(cores)", "MEMORY(bytes)"}, headings...)...)
	} else {
		t.Head(append([]string{"NAME", "CPU(cores)", "MEMORY(bytes)"}, headings...)...)
	}
	for _, r := range rows {
		f.row(t, r.pod, r.container, append([]string{view.CpuCell(r.usage.NanoCores), view.MemoryCell(r.usage.WorkingSetBytes)}, more(r)...)...)
	}
	return t
}

// row adds a row, with the cell for the container if the table has it.
func (f *topFlags) row(t *view.Table, pod identity.Pod, container string, cells ...string) {
	names := []string{pod.Name}
	if f.containers {
		names = append(names, container)
	}
	t.Row(pod.Namespace, append(names, cells...)...)
}

// limitsTable returns the table of the usage with limits and percentages.
func limitsTable(pods []serve.PodUsage, limits usageLimits, f *topFlags) *view.Table {
	t := usageTable(usageRows(pods, f), f, []string{"CPU(limit)", "CPU%", "MEMORY(limit)", "MEMORY%"}, func(r usageRow) []string {
		key := usageKey{r.pod.Namespace, r.pod.Name, r.container}
		cpuLimit, cpuPercent := limits.cpuLimitCells(key, r.usage.NanoCores)
		memoryLimit, memoryPercent := limits.memoryLimitCells(key, r.usage.WorkingSetBytes)
		return []string{cpuLimit, cpuPercent, memoryLimit, memoryPercent}
	})
	if f.sum {
		total := totalUsage(pods)
		f.row(t, identity.Pod{Name: "________"}, "", "________", "________")
		f.row(t, identity.Pod{}, "", view.CpuCell(total.NanoCores), view.MemoryCell(total.WorkingSetBytes))
	}
	return t
}

func totalUsage(pods []serve.PodUsage) (total serve.Usage) {
	for _, p := range pods {
		view.Add(&total, p.Usage)
	}
	return total
}
