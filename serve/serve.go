package serve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/serve/systemd"
)

// Options are the options of Run.
type Options struct {
	// manifest directories or https URLs; if empty, podrun supervises only pods that commands applied
	Dirs []string
	// SettingsDirs is true if Dirs come from the settings: a reload then also replaces Dirs.
	SettingsDirs bool
	Remote       RemoteOptions    // how URLs are read
	Manifest     manifest.Options // how files are read
	Claims       map[string]string
	// maximum interval between two reads of the directories; 0 means 20 s
	Relist       time.Duration
	AllowKubelet bool
	// Cluster is the cluster of which this host is a node; nil means none.
	Cluster Cluster
	// API configures the HTTP API.
	API APIOptions
	// Runtime returns the state of the runtime; nil if this process does not start the runtime. It
	// must not wait.
	Runtime func() RuntimeState
	// SettingsFault describes the settings file if podrun does not use its content, else it returns ""; it may be
	// nil.
	SettingsFault func() string
	// Reload receives changed settings; nil for none.
	Reload <-chan *run.Node
	// Ready is called after the first read of the directories. Progress is called every Heartbeat
	// with a line about the supervised pods, unless a worker is stuck.
	Ready     func()
	Progress  func(string)
	Heartbeat time.Duration
}

// Run supervises the pods that manifest directories define, and those that commands applied, until
// ctx ends. After that, the containers continue to run.
func Run(ctx context.Context, e *run.Node, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan struct{}, 1)
	reread := func() {
		select {
		case changed <- struct{}{}:
		default: // a signal is already pending
		}
	}
	services := newServices(e, reread)
	options := supervisor.Options{AllowKubelet: o.AllowKubelet, Ready: o.Ready, Heartbeat: o.Heartbeat, StateChanges: stateChanges(ctx, e, services.signal, reread)}
	options.RotateLogs, options.RotateLogsEvery = func(ctx context.Context, running []observe.Running) { rotateLogs(ctx, e, running) }, e.Settings.ContainerLogMonitorInterval
	options.Stats, options.Images, options.Collect = supervisor.NewStats(e), Images(e), func(ctx context.Context) { collectLeftovers(ctx, e) }
	options.Shutdowns = func(ctx context.Context) (supervisor.Shutdowns, error) {
		l, err := systemd.DialLogind(ctx)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	options.Taken = services.apply
	if o.SettingsFault == nil {
		o.SettingsFault = func() string { return "" }
	}
	if o.Runtime == nil {
		o.Runtime = func() RuntimeState { return RuntimeState{} }
	}
	e.Observer.Changed = func(identity.Pod) { services.signal() }
	e.Observer.Unserved = func(list []*corev1.Service) { services.noteUnserved(list, time.Now()) }
	if o.Cluster != nil {
		o.API.Authorize, o.API.LocalName = o.Cluster.Authorize, o.Cluster.LocalName
	}
	api := newAPI(e, o.API)
	api.settingsFault = o.SettingsFault
	api.runtime, api.services, api.servicesNote, api.files = o.Runtime, services.problem, services.note, &stateFiles{engine: e}
	api.observe(ctx, &options)
	defer api.close()
	defer cancel()
	if o.Progress != nil {
		options.Progress = func(s supervisor.Summary) {
			line, stuck := progress(s, o.Runtime())
			if stuck != nil {
				e.WarnOnce(*stuck)
				return
			}
			o.Progress(line)
		}
	}
	controller, err := newJobs(e, changed)
	if err != nil {
		return err
	}
	noteJobs(controller, e)
	attach(o.Cluster, e, changed, api)
	read := &withJobs{engine: e, jobs: controller, cluster: o.Cluster}
	if o.Cluster != nil {
		options.Reports = o.Cluster
	}
	options.Sources, options.Changed, options.Jobs = read, changed, controller.Run
	options.HasPod, options.Forgotten = controller.Has, controller.Wake
	if len(o.Dirs) > 0 {
		if read.files, err = newSources(ctx, e, o, changed); err != nil {
			return err
		}
		defer read.files.close()
		defer cancel()
	}
	s := supervisor.New(e, options)
	api.supervised(s)
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()
	endWatch := services.watch(ctx)
	loops.Go(func() {
		defer endWatch()
		services.run(ctx)
	})
	loops.Go(func() { api.files.run(ctx) })
	if o.Cluster != nil {
		loops.Go(func() { o.Cluster.Run(ctx) })
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case n := <-o.Reload:
				n.Observer.Changed = func(identity.Pod) { services.signal() }
				api.tap(n)
				noteJobs(controller, n)
				noteCluster(o.Cluster, n)
				s.Reload(n)
				read.files.reload(n.Settings)
			}
		}
	}()
	return s.Run(ctx)
}

// progress returns the line for the service manager, or, if podrun itself makes no progress, the problem:
// the service manager then restarts podrun. A runtime that cannot be used is not such a problem.
func progress(s supervisor.Summary, runtime RuntimeState) (line string, stuck *problem.Problem) {
	switch {
	case len(s.Stuck) > 0:
		return "", &problem.Problem{Object: "pod " + s.Stuck[0], Message: "podrun has made no progress on it for 10 minutes"}
	case s.Late != "":
		return "", &problem.Problem{Object: "podrun serve", Message: s.Late + " has made no progress for 10 minutes"}
	}
	line = s.String()
	if runtime.Problem != "" {
		line += "; the container runtime does not run: " + runtime.Problem
	}
	return line, nil
}

// stateChanges watches the owner records and claims of pods. When one of them changes, it calls changed
// and sends the pod to the returned channel, or an empty name if events were lost. It calls replicas when
// the number of pods of a workload changes, or if a pod of a workload may be missing. If the directories
// cannot be watched, it prints a warning and returns nil.
func stateChanges(ctx context.Context, e *run.Node, changed, replicas func()) <-chan identity.Pod {
	w, err := fsnotify.NewWatcher()
	for _, dir := range []string{e.Layout().Owners(), e.Layout().Claims(), e.Layout().Workloads()} {
		if err == nil {
			err = errors.Join(store.MakeStateDir(dir), w.Add(dir))
		}
	}
	if err != nil {
		e.SendWarnings(problem.List{problem.WarningOf(fmt.Errorf("watch the pods' state files: %w; podrun reads them periodically instead", err))})
		if w != nil {
			_ = w.Close()
		}
		return nil
	}
	out := make(chan identity.Pod)
	go func() {
		defer w.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.Errors:
				// After an overflow, the events of any pod may have been lost.
				replicas()
				changed()
				select {
				case out <- identity.Pod{}:
				case <-ctx.Done():
					return
				}
			case ev := <-w.Events:
				id, ok := identity.NamedPod(filepath.Base(ev.Name))
				if !ok {
					continue
				}
				if filepath.Dir(ev.Name) == e.Layout().Workloads() {
					replicas()
					continue
				}
				if ev.Has(fsnotify.Remove) && store.HasWorkloads(e.Layout()) {
					replicas() // a replica may have been deleted
				}
				changed()
				select {
				case out <- id:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

// collectLeftovers removes leftovers of killed podrun processes. If the runtime does not
// respond, it does not report that, because another part of the supervisor does.
func collectLeftovers(ctx context.Context, e *run.Node) {
	if _, err := run.GC(ctx, e, run.GCOptions{Timeout: time.Minute}); err != nil && ctx.Err() == nil && !observe.IsUnavailable(err) {
		e.WarnOnce(problem.WarningOf(err))
	}
}

// OfAPIServer reports whether SourceOf has returned an API server, not a file.
func OfAPIServer(from string) bool { return source.IsAPIServerPath(from) }

// SourceOf returns the file from which a running supervisor got a pod; "" if there is none. The pod of a Job has none:
// the record of the Job is not a file of the user, and the Job decides whether to replace the pod.
func SourceOf(e *run.Node, id identity.Pod) string {
	r, err := store.ReadSource(e.Layout(), id)
	if err != nil || r == nil || !e.Supervised() || filepath.Dir(r.Path) == e.Layout().Jobs() {
		return ""
	}
	return source.Shown(r.Path)
}
