package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

// LogsFlags are the flags of logs.
type LogsFlags struct {
	container     string
	allContainers bool
	prefix        bool
	follow        bool
	previous      bool
	timestamps    bool
	tail          int64
	since         time.Duration
	sinceTime     string
	limitBytes    int64
	selector      string
	maxRequests   int
	allPods       bool
}

// selectedTail is the number of lines that podrun prints from each log if -l selects the pods
// and --tail is not set, as in kubectl.
const selectedTail = 10

// NewLogs returns the command logs.
func NewLogs(a *cli.App) *cobra.Command {
	f := &LogsFlags{}
	c := &cobra.Command{
		Use:   "logs NAME [CONTAINER] | -l SELECTOR",
		Short: "Print the logs of a pod's containers",
		Long: `Print the logs of a container, as 'kubectl logs' does. For a pod with several
containers, print the logs of all of them and prefix each line with the container's
name. With -l, print the logs of all pods that match: the last 10 lines of each,
unless --tail is set.`,
		Example: `  podrun logs web
  podrun logs web -c sidecar -f --tail 20
  podrun logs web --previous --timestamps
  podrun logs -l app=web -f`,
		RunE: func(c *cobra.Command, named []string) error { return runLogs(a, c, f, named) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.container, "container", "c", "", "only this `container`")
	flags.BoolVar(&f.allPods, "all-pods", false, "all pods of the workload, with --prefix")
	flags.BoolVar(&f.allContainers, "all-containers", false, "all containers, including init containers")
	flags.BoolVar(&f.prefix, "prefix", false, "prefix each line with pod and container")
	flags.BoolVarP(&f.follow, "follow", "f", false, "print new lines until the containers end")
	flags.BoolVarP(&f.previous, "previous", "p", false, "print the log of the previous instance of the container")
	flags.BoolVarP(&f.timestamps, "timestamps", "t", false, "prefix each line with its time")
	flags.Int64Var(&f.tail, "tail", -1, "number of `lines` from the end; -1 for all (with -l, the default is 10)")
	flags.DurationVar(&f.since, "since", 0, "only lines newer than this, such as 5m")
	flags.StringVar(&f.sinceTime, "since-time", "", "only lines after this `time` (RFC 3339)")
	flags.StringVarP(&f.selector, "selector", "l", "", "the pods of the namespace that match the label selector (app=web)")
	flags.IntVar(&f.maxRequests, "max-log-requests", 5, "with -f and -l: maximum number of logs to follow")
	flags.Int64Var(&f.limitBytes, "limit-bytes", 0, "maximum number of bytes; 0 for no limit")
	return c
}

func runLogs(a *cli.App, c *cobra.Command, f *LogsFlags, given []string) error {
	match, err := f.check(c, given)
	if err != nil {
		return err
	}
	named, container, err := f.names(given)
	if err != nil {
		return err
	}
	if container != "" {
		if f.container != "" {
			return grammar.Usage(c, errors.New("the container is given both as an argument and with -c"))
		}
		f.container = container
	}
	opts, err := f.options(time.Now())
	if err != nil {
		return grammar.Usage(c, err)
	}
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: a.Streams.Err}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	request := access.LogsRequest{Namespace: a.NamespaceOrDefault("default"), Container: f.container,
		Previous: f.previous, All: f.allContainers || f.container == "", Init: f.allContainers}
	var logs []run.Log
	if named.Name != "" {
		logs, err = namedLogs(c.Context(), a, f, node, named, request)
	} else {
		logs, err = selectedLogs(c.Context(), a, node, request, match)
	}
	switch {
	case err != nil:
		return err
	case f.selector != "" && f.follow && len(logs) > f.maxRequests:
		return grammar.Usage(c, fmt.Errorf("these pods have %d logs, but podrun follows at most %d: increase --max-log-requests", len(logs), f.maxRequests))
	}
	return podlog.Mux(c.Context(), podlog.Output{Stdout: a.Raw.Out, Stderr: a.Raw.Out}, f.Sources(c.Context(), a, node, logs), opts)
}

// check validates how the user selects pods, and returns the match function of -l.
func (f *LogsFlags) check(c *cobra.Command, given []string) (func(map[string]string) bool, error) {
	switch {
	case f.selector == "" && len(given) == 0:
		return nil, problem.UsageError(errors.New("specify a pod by name, or pods by -l SELECTOR"), "use 'podrun logs NAME', or 'podrun logs NAME -f' to follow the log; run 'podrun get' to list the pods")
	case f.selector != "" && len(given) > 0:
		return nil, problem.UsageError(errors.New("-l cannot be used with names"), "omit "+shellword.Join(given)+", or -l")
	case len(given) > 3:
		return nil, grammar.Usage(c, fmt.Errorf("%d names are given: specify one pod and at most one container", len(given)))
	case f.maxRequests < 1:
		return nil, grammar.Usage(c, errors.New("--max-log-requests must be at least 1"))
	}
	if f.selector != "" && !c.Flags().Changed("tail") {
		f.tail = selectedTail
	}
	match, err := grammar.ParseSelector(f.selector)
	if err != nil {
		return nil, grammar.Usage(c, err)
	}
	return match, nil
}

// namedLogs finds the logs of a pod, or of the first pod of a workload; with --all-pods, of all its pods.
func namedLogs(ctx context.Context, a *cli.App, f *LogsFlags, node *run.Node, named lookup.Ref, r access.LogsRequest) (logs []run.Log, err error) {
	replicas, err := named.Replicas(node.Layout(), r.Namespace)
	switch {
	case err != nil:
		return nil, err
	case len(replicas) < 2:
		if r.Name, err = named.Resolve(node.Layout(), r.Namespace); err != nil {
			return nil, err
		}
		return podLogs(ctx, a, node, r)
	case !f.allPods:
		// kubectl reports its choice, too.
		fmt.Fprintf(a.Streams.Err, "Found %d pods, using pod/%s\n", len(replicas), replicas[0])
		replicas = replicas[:1]
	}
	f.prefix = f.prefix || f.allPods
	var failed error
	for _, r.Name = range replicas {
		one, err := podLogs(ctx, a, node, r)
		logs, failed = append(logs, one...), errors.Join(failed, err)
	}
	if len(logs) == 0 {
		return nil, failed
	}
	if failed != nil {
		fmt.Fprintln(a.Streams.Err, "warning:", failed)
	}
	return logs, nil
}

// podLogs finds the logs of a pod, or of a container whose ID the user typed instead of the
// pod's name.
func podLogs(ctx context.Context, a *cli.App, node *run.Node, r access.LogsRequest) ([]run.Log, error) {
	logs, err := access.Logs(ctx, node, r)
	if err == nil {
		return logs, nil
	}
	c, failed := a.ByContainerID(ctx, node, err, r.Namespace, r.Name, r.Container)
	if failed != nil || c == nil {
		return nil, cmp.Or(failed, err)
	}
	r.Namespace, r.Name = c.Namespace, c.Pod
	if !r.Init { // without --all-containers
		r.Container, r.All = c.Container, false
	}
	return access.Logs(ctx, node, r)
}

// selectedLogs finds the logs of the matching pods. It prints a warning for each pod without a
// log; if no pod has a log, it returns an error.
func selectedLogs(ctx context.Context, a *cli.App, node *run.Node, r access.LogsRequest, match func(map[string]string) bool) ([]run.Log, error) {
	known, err := lookup.Find(ctx, node, lookup.Selector{Namespace: r.Namespace})
	if err != nil {
		return nil, err
	}
	var out []run.Log
	var without []error
	matched := 0
	for _, k := range known {
		if k.Pod == nil || !match(k.Pod.Labels) {
			continue
		}
		matched++
		r.Name = k.ID.Name
		logs, err := access.Logs(ctx, node, r)
		if e, ok := errors.AsType[*problem.Error](err); ok && e.Kind == problem.Failed {
			without = append(without, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, logs...)
	}
	if matched == 0 {
		fmt.Fprintln(a.Streams.Err, "no pods found")
		return nil, nil
	}
	if len(out) == 0 {
		return nil, errors.Join(without...)
	}
	for _, err := range without {
		fmt.Fprintln(a.Streams.Err, "warning:", err)
	}
	return out, nil
}

// names returns the named pod and, if given, the name of the container. A resource type
// may precede them, as in "logs pod web".
func (f *LogsFlags) names(given []string) (pod lookup.Ref, container string, err error) {
	if len(given) == 0 {
		return lookup.Ref{}, "", nil // -l selects the pods
	}
	named := given[:1]
	if len(given) > 1 && (grammar.IsPodType(given[0]) || grammar.Instead(given[0]) != "") {
		named = given[:2]
	}
	refs, err := grammar.PodRefs(named, true)
	if err != nil {
		return lookup.Ref{}, "", err
	}
	switch rest := given[len(named):]; len(rest) {
	case 0:
		return refs[0], "", nil
	case 1:
		return refs[0], rest[0], nil
	}
	return lookup.Ref{}, "", problem.UsageError(fmt.Errorf("%d names are given", len(given)-len(named)+1), "name one pod and, after it or with -c, a container")
}

func (f *LogsFlags) options(now time.Time) (podlog.Options, error) {
	o := podlog.Options{Follow: f.follow, Timestamps: f.timestamps}
	if f.tail < -1 {
		return o, fmt.Errorf("--tail=%d is less than -1", f.tail)
	}
	if f.tail >= 0 {
		o.Tail = &f.tail
	}
	if f.limitBytes > 0 {
		o.LimitBytes = &f.limitBytes
	}
	switch {
	case f.since != 0 && f.sinceTime != "":
		return o, errors.New("use --since or --since-time, not both")
	case f.since < 0:
		return o, fmt.Errorf("--since=%s is not in the past", f.since)
	case f.since > 0:
		o.Since = now.Add(-f.since)
	case f.sinceTime != "":
		t, err := time.Parse(time.RFC3339, f.sinceTime)
		if err != nil {
			return o, fmt.Errorf("--since-time: %w", err)
		}
		o.Since = t
	}
	return o, nil
}

// Sources returns a source for each container's log.
func (f *LogsFlags) Sources(ctx context.Context, a *cli.App, node *run.Node, logs []run.Log) []podlog.Source {
	var out []podlog.Source
	pods := map[string]bool{}
	for _, l := range logs {
		pods[l.Pod.UID] = true
	}
	for _, l := range logs {
		s := podlog.Source{
			Container: l.Container, Path: l.Path, State: string(l.State), FinishedAt: l.FinishedAt,
			Alive:   func(ctx context.Context) (bool, error) { return access.Alive(ctx, node, l.ID) },
			Missing: func(ctx context.Context, err error) error { return access.ExplainLog(ctx, node, l, err) },
			Warn:    func(err error) { fmt.Fprintln(a.Streams.Err, "warning:", err) },
		}
		switch {
		case f.prefix, len(pods) > 1:
			s.Prefix = "[pod/" + l.Pod.Name + "/" + l.Container + "] "
		case len(logs) > 1:
			s.Prefix = "[" + l.Container + "] "
		}
		out = append(out, s)
	}
	return out
}
