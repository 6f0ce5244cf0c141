package serve

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/serve/source"
	"github.com/podrun/podrun/serve/supervisor"
)

// state returns the data for a scrape of /metrics. It does not call other processes.
func (a *api) state() nodeapi.State {
	out := nodeapi.State{Known: map[string]bool{}, Containers: map[string]int{}, Restarts: map[nodeapi.ContainerName]uint32{}}
	s, err := a.supervisor()
	if err != nil {
		return out
	}
	summary := s.Summary()
	out.Pods = summary.Pods
	out.Down = !summary.Down.IsZero()
	out.Sources = a.sources()
	for _, p := range summary.Pending {
		if p.Reason == event.RolledBack {
			out.Rejected++
		}
	}
	if entries, err := os.ReadDir(a.engine.Layout().PodsDir()); err == nil {
		for _, e := range entries {
			out.Known[e.Name()] = true
		}
	}
	containers, ready := s.Inventory()
	for _, p := range ready {
		if out.Known[p.UID] {
			out.RunningPods++
		}
	}
	for _, c := range containers {
		if !out.Known[c.Pod.UID] {
			continue
		}
		out.Containers[containerState(c.State)]++
		name := nodeapi.ContainerName{Namespace: c.Pod.Namespace, Pod: c.Pod.Name, Container: c.Container}
		out.Restarts[name] = max(out.Restarts[name], c.Attempt)
	}
	return out
}

// containerState returns the kubelet's label for a state.
func containerState(s lifecycle.State) string {
	switch s {
	case lifecycle.Running:
		return "running"
	case lifecycle.Created:
		return "created"
	case lifecycle.Exited:
		return "exited"
	}
	return "unknown"
}

// health returns the checks of /readyz.
func (a *api) health() []nodeapi.Check {
	s, err := a.supervisor()
	if err != nil {
		return []nodeapi.Check{{Name: "supervisor", Reason: err.Error()}}
	}
	checks := nodeapi.SourceCheck(a.sources())
	summary := s.Summary()
	state := a.runtime()
	runtime := nodeapi.Check{Name: "runtime", Note: state.Note, Reason: state.Problem}
	if !summary.Down.IsZero() && runtime.Reason == "" {
		runtime.Reason = fmt.Sprintf("the container runtime has not answered since %s", summary.Down.Format(time.RFC3339))
	}
	workers := nodeapi.Check{Name: "workers", Live: true}
	if len(summary.Stuck) > 0 {
		workers.Reason = fmt.Sprintf("podrun has made no progress on pod %s for 10 minutes (pods without progress: %d)", summary.Stuck[0], len(summary.Stuck))
	}
	if summary.Late != "" {
		workers.Reason = summary.Late + " has made no progress for 10 minutes"
	}
	checks = append(checks, runtime, workers, nodeapi.Check{Name: "services", Note: a.servicesNote(), Reason: a.services()})
	checks = append(checks, nodeapi.Check{Name: "pods", Reason: summary.Blocked})
	if fault := a.settingsFault(); fault != "" {
		checks = append(checks, nodeapi.Check{Name: "settings", Reason: fault})
	}
	checks = append(checks, a.files.checks()...)
	a.mu.Lock()
	defer a.mu.Unlock()
	for address, why := range a.deaf {
		checks = append(checks, nodeapi.Check{Name: "listener " + address, Reason: why})
	}
	return checks
}

// sources returns the state of the manifest sources; nil until podrun has read them.
func (a *api) sources() []nodeapi.Source {
	s, err := a.supervisor()
	if err != nil {
		return nil
	}
	snapshot := s.Snapshot()
	if snapshot == nil {
		return nil
	}
	summary := s.Summary()
	states := withPending(sourceStates(snapshot), snapshot, summary.Pending)
	for _, p := range s.Ignored() {
		if i := sourceOf(snapshot, p.File); i >= 0 && len(states[i].Ignored) < maxSourceProblems {
			states[i].Ignored = append(states[i].Ignored, p.String())
		}
	}
	return withCorrupt(states, snapshot, summary.Corrupt)
}

// sourcesAndRemoved returns the state of the manifest sources, and of those that podrun no longer reads.
func (a *api) sourcesAndRemoved() []nodeapi.Source {
	s, err := a.supervisor()
	if err != nil || s.Snapshot() == nil {
		return nil
	}
	return append(a.sources(), removedSources(a.engine.Layout(), s.Snapshot())...)
}

// sourceOf returns the index of the source that has a file, or -1. The name of the file is in the form of
// source.Shown.
func sourceOf(snapshot *source.Snapshot, file string) int {
	return slices.IndexFunc(snapshot.Dirs, func(d source.Dir) bool {
		return d.Name() == file || d.Name() == filepath.Dir(file)
	})
}

// withPending adds the definitions that are not in effect to their sources. Pods of an API server have no source
// here: the API server has their status.
func withPending(states []nodeapi.Source, snapshot *source.Snapshot, pending []store.Pending) []nodeapi.Source {
	for _, p := range pending {
		if i := sourceOf(snapshot, p.Source); i >= 0 && len(states[i].Pending) < maxSourceProblems {
			states[i].Pending = append(states[i].Pending, fmt.Sprintf("pod %s/%s: %s", p.Namespace, p.Name, p.Text()))
		}
	}
	return states
}

// appliedSource is the name of the source in problems of pods that no file defines.
const appliedSource = "podrun apply"

// withCorrupt adds problems to the sources: one for each pod whose checkpoint podrun cannot
// read.
func withCorrupt(states []nodeapi.Source, snapshot *source.Snapshot, corrupt []supervisor.Corrupt) []nodeapi.Source {
	applied := nodeapi.Source{Name: appliedSource, State: string(source.Present)}
	for _, c := range corrupt {
		at := &applied
		for i, d := range snapshot.Dirs {
			if c.Source != "" && (d.Path == c.Source || d.Path == filepath.Dir(c.Source)) {
				at = &states[i]
			}
		}
		if at == &applied {
			applied.Pods++
		}
		if len(at.Problems) < maxSourceProblems {
			at.Problems = append(at.Problems, "pod "+c.ID+": its checkpoint: "+c.Why)
		}
	}
	if applied.Pods > 0 {
		states = append(states, applied)
	}
	return states
}

// maxSourceProblems limits how many problems of a source are shown.
const maxSourceProblems = 20

// sourceStates converts the sources of a snapshot.
func sourceStates(snapshot *source.Snapshot) []nodeapi.Source {
	out := make([]nodeapi.Source, 0, len(snapshot.Dirs))
	for i := range snapshot.Dirs {
		d := &snapshot.Dirs[i]
		one := nodeapi.Source{Name: d.Name(), State: string(d.State), Why: d.Why}
		for _, name := range d.Unsigned[:min(len(d.Unsigned), maxSourceProblems)] {
			one.Problems = append(one.Problems, name+": ignored, because the signed list does not contain it")
		}
		for j := range d.Files {
			f := &d.Files[j]
			if f.Objects != nil {
				one.Files++
				one.Pods += len(f.Objects.Pods)
			}
			if f.State != source.Broken {
				continue
			}
			for _, p := range f.Problems {
				if !p.Warning && len(one.Problems) < maxSourceProblems {
					one.Problems = append(one.Problems, p.String())
				}
			}
		}
		out = append(out, one)
	}
	return out
}

// pods returns all pods, as `podrun get -A -o json` shows them.
func (a *api) pods(ctx context.Context) (*corev1.PodList, error) {
	views, err := lookup.Pods(ctx, a.engine, lookup.Selector{})
	if err != nil {
		return nil, err
	}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, v := range views {
		list.Items = append(list.Items, *v.Object)
	}
	return list, nil
}

// events returns the events in the journals, ordered by time.
func (a *api) events(ctx context.Context, namespace, pod string) ([]event.Event, error) {
	list, err := lookup.EventsOf(ctx, a.engine.Layout(), func(kind string, id identity.Pod) bool {
		return (namespace == "" || id.Namespace == namespace) && (pod == "" || kind == "Pod" && id.Name == pod)
	})
	if err != nil && list != nil {
		a.engine.WarnOnce(problem.WarningOf(err))
		err = nil
	}
	return list, err
}

// logs writes the log of a container.
func (a *api) logs(ctx context.Context, r nodeapi.LogRequest, w io.Writer) error {
	found, err := access.Logs(ctx, a.engine, access.LogsRequest{Namespace: r.Namespace, Name: r.Pod, Container: r.Container, Previous: r.Previous})
	if err != nil {
		return err
	}
	l := found[0]
	src := podlog.Source{Container: l.Container, Path: l.Path, State: string(l.State), FinishedAt: l.FinishedAt,
		Alive:   func(ctx context.Context) (bool, error) { return access.Alive(ctx, a.engine, l.ID) },
		Missing: func(ctx context.Context, err error) error { return access.ExplainLog(ctx, a.engine, l, err) }}
	return podlog.Stream(ctx, src, podlog.Output{Stdout: w, Stderr: w},
		podlog.Options{Follow: r.Follow, Tail: r.Tail, Since: r.Since, Timestamps: r.Timestamps, LimitBytes: r.LimitBytes})
}
