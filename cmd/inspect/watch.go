package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/serve"
)

// The intervals at which `get --watch` reads the pods: watchPoll without a supervisor, and watchRelist if a
// supervisor streams events, because some changes cause no event. After an event, `get --watch` waits for
// eventsSettle before it reads the pods, because events arrive in groups.
const (
	watchPoll    = time.Second
	watchRelist  = 5 * time.Second
	eventsSettle = 100 * time.Millisecond
)

// watchPods calls show after each change until ctx ends. The first call has all pods, unless
// onlyChanges is set. The later calls have the changed pods.
func watchPods(ctx context.Context, read func(context.Context) ([]corev1.Pod, error), events func(context.Context) (<-chan event.Event, error), onlyChanges bool, show func([]corev1.Pod) error) error {
	var before map[types.UID]*corev1.Pod
	var signaled <-chan event.Event
	for {
		pods, err := read(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		changed, now := changedPods(before, pods)
		if (before != nil || !onlyChanges) && (before == nil || len(changed) > 0) {
			if err := show(changed); err != nil {
				return err
			}
		}
		before = now
		if signaled == nil {
			signaled, _ = events(ctx) // nil without a supervisor
		}
		wait := watchPoll
		if signaled != nil {
			wait = watchRelist
		}
		select {
		case <-ctx.Done():
			return ended(ctx, ctx.Err())
		case <-time.After(wait):
		case _, open := <-signaled:
			if !open {
				signaled = nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(eventsSettle):
			}
			for len(signaled) > 0 {
				<-signaled // the next read includes the change that this signal reports
			}
		}
	}
}

// ended returns the error of a watch: the signal that ended it, if there was one, else
// err.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// changedPods returns the pods whose definition or status has changed, and all pods by
// UID. A deleted pod is included once, marked as deleted.
func changedPods(before map[types.UID]*corev1.Pod, pods []corev1.Pod) (changed []corev1.Pod, now map[types.UID]*corev1.Pod) {
	now = map[types.UID]*corev1.Pod{}
	for i := range pods {
		p := &pods[i]
		key := p.UID
		// The pod could not be started.
		if key == "" {
			key = types.UID(p.Namespace + "/" + p.Name)
		}
		now[key] = p
		if old := before[key]; old == nil || !reflect.DeepEqual(old, p) {
			changed = append(changed, *p)
		}
	}
	for key, old := range before {
		if now[key] == nil {
			gone := old.DeepCopy()
			gone.Status.Phase, gone.Status.Reason = "", view.ReasonDeleted
			changed = append(changed, *gone)
		}
	}
	return changed, now
}

// getSources prints the manifest sources of the supervisor.
func getSources(ctx context.Context, a *cli.App) error {
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	a.WarnAbout(&cli.Renderer{W: a.Streams.Err}, notes)
	sources, err := serve.ReadSources(ctx, settings.Layout())
	if err != nil {
		return err
	}
	if a.Output == "json" || a.Output == "yaml" {
		return view.PrintData(a.Raw.Out, a.Output, sources)
	}
	var table view.Table
	table.Head("SOURCE", "STATE", "FILES", "PODS", "REASON")
	for _, s := range sources {
		table.Row("", s.Name, string(s.State), strconv.Itoa(s.Files), strconv.Itoa(s.Pods), s.Reason())
	}
	return table.Print(a.Streams.Out)
}

// watch prints pods, and then their changes until a signal arrives. On a terminal, it shows them
// in a live view.
func watch(a *cli.App, c *cobra.Command, f *getFlags, node *run.Node, messages *heldMessages, refs []lookup.Ref, match func(map[string]string) bool) error {
	named, missing := grammar.Resolve(node.Layout(), namespaceRead(a, f.allNamespaces), refs)
	if missing != nil {
		return missing
	}
	for _, name := range named {
		if f.allNamespaces || lookup.IsStored(node.Layout(), a.NamespaceOrDefault("default"), name) {
			continue
		}
		if grammar.Instead(name) != "" {
			return grammar.NotPods(name)
		}
		fmt.Fprintf(messages, "pod %s: not found: waiting until it is created\n", name)
	}
	first := true
	read := func(ctx context.Context) ([]corev1.Pod, error) {
		pods, err := findPods(ctx, a, node, f.allNamespaces, named)
		return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !match(p.Labels) }), err
	}
	events := func(ctx context.Context) (<-chan event.Event, error) { return serve.WatchEvents(ctx, node.Layout()) }
	if canView(a) && !f.watchOnly && !f.noHeaders && (a.Output == "" || a.Output == "wide") {
		return liveView(c.Context(), a, "name", messages, func(ctx context.Context, show func(viewData)) error {
			readAndShow := func(ctx context.Context) ([]corev1.Pod, error) {
				pods, err := read(ctx)
				if err == nil {
					show(&podsView{pods: pods, last: lastEvents(node, pods), options: tableOptions(a, f, true)})
				}
				return pods, err
			}
			return watchPods(ctx, readAndShow, events, false, func([]corev1.Pod) error { return nil })
		})
	}
	return watchPods(c.Context(), read, events, f.watchOnly, func(pods []corev1.Pod) error {
		err := printWatched(a, pods, f, first)
		first = first && len(pods) == 0
		return err
	})
}

// printWatched prints changed pods: rows of a table, with the heading only the first
// time, one JSON object per line, or names.
func printWatched(a *cli.App, pods []corev1.Pod, f *getFlags, first bool) error {
	switch a.Output {
	case "json":
		encoder := json.NewEncoder(a.Raw.Out)
		for i := range pods {
			if err := encoder.Encode(&pods[i]); err != nil {
				return err
			}
		}
		return nil
	case "name":
		return printPods(a, pods, f, false)
	}
	return view.PodTable(a.Raw.Out, a.ScreenOf(a.OutTerminal), pods, tableOptions(a, f, first))
}
