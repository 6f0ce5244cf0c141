package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/podlog"
	"github.com/podrun/podrun/run"
)

type logsFlags struct {
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
}

func newLogs(a *app) *cobra.Command {
	f := &logsFlags{}
	c := &cobra.Command{
		Use:   "logs NAME [CONTAINER]",
		Short: "Print the logs of a pod's containers",
		Long: `Print the logs of a container, as 'kubectl logs' does. For a pod with several
containers, print all logs, and prefix each line with its container.`,
		Example: `  podrun logs web
  podrun logs web -c sidecar -f --tail 20
  podrun logs web --previous --timestamps`,
		Args: args(cobra.RangeArgs(1, 3)),
		RunE: func(c *cobra.Command, named []string) error { return a.runLogs(c, f, named) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.container, "container", "c", "", "only this `container`")
	flags.BoolVar(&f.allContainers, "all-containers", false, "all containers, including init containers")
	flags.BoolVar(&f.prefix, "prefix", false, "prefix each line with pod and container")
	flags.BoolVarP(&f.follow, "follow", "f", false, "print new lines until the containers end")
	flags.BoolVarP(&f.previous, "previous", "p", false, "the previous run of the container")
	flags.BoolVar(&f.timestamps, "timestamps", false, "prefix each line with its time")
	flags.Int64Var(&f.tail, "tail", -1, "number of `lines` from the end; -1 for all")
	flags.DurationVar(&f.since, "since", 0, "only lines newer than this, such as 5m")
	flags.StringVar(&f.sinceTime, "since-time", "", "only lines after this `time` (RFC 3339)")
	flags.Int64Var(&f.limitBytes, "limit-bytes", 0, "maximum number of bytes; 0 for no limit")
	return c
}

func (a *app) runLogs(c *cobra.Command, f *logsFlags, given []string) error {
	named, err := f.names(given)
	if err != nil {
		return err
	}
	if len(named) == 2 {
		if f.container != "" {
			return usage(c, errors.New("a container is named twice"))
		}
		f.container = named[1]
	}
	opts, err := f.options(time.Now())
	if err != nil {
		return usage(c, err)
	}
	engine, closeAll, err := a.engine(&renderer{w: a.streams.Err})
	if err != nil {
		return err
	}
	defer closeAll()
	namespace := a.namespaceOr("default")
	logs, err := engine.Logs(c.Context(), run.LogsRequest{
		Namespace: namespace, Name: named[0], Container: f.container,
		Previous: f.previous, All: f.allContainers || f.container == "", Init: f.allContainers,
	})
	if err != nil {
		return err
	}
	return podlog.Mux(c.Context(), podlog.Output{Stdout: a.raw.Out, Stderr: a.raw.Out}, f.sources(c.Context(), a, engine, logs), opts)
}

// names are the pod's name and perhaps the container's. Where the first word is the
// type, as in "logs pod web", the name follows.
func (f *logsFlags) names(given []string) ([]string, error) {
	rest := []string{}
	if isPodType(given[0]) && len(given) > 1 {
		given = given[1:]
	} else if len(given) > 1 && instead(given[0]) != "" {
		return nil, notPods(given[0])
	}
	name, err := podName(given[0])
	if err != nil {
		return nil, err
	}
	if rest = given[1:]; len(rest) > 1 {
		return nil, namesError(fmt.Errorf("%d names are given", len(given)), "name one pod and, after it or with -c, a container")
	}
	return append([]string{name}, rest...), nil
}

func (f *logsFlags) options(now time.Time) (podlog.Options, error) {
	o := podlog.Options{Follow: f.follow, Timestamps: f.timestamps}
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

// sources makes a source of each container's log.
func (f *logsFlags) sources(ctx context.Context, a *app, engine *run.Engine, logs []run.Log) []podlog.Source {
	var out []podlog.Source
	for _, l := range logs {
		s := podlog.Source{
			Container: l.Container, Path: l.Path, State: string(l.State),
			Alive: func(ctx context.Context) (bool, error) { return engine.Alive(ctx, l.ID) },
			Warn:  func(err error) { fmt.Fprintln(a.streams.Err, "warning:", err) },
		}
		switch {
		case f.prefix:
			s.Prefix = "[pod/" + l.Pod.Name + "/" + l.Container + "] "
		case len(logs) > 1:
			s.Prefix = "[" + l.Container + "] "
		}
		out = append(out, s)
	}
	return out
}
