package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/podlog"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/serve"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/source"
	"github.com/podrun/podrun/systemd"
)

// ServeOptions are the options of Serve.
type ServeOptions struct {
	Dirs         []string         // of manifests, or https URLs; none supervises only what commands applied
	Remote       RemoteOptions    // how URLs are read
	Manifest     manifest.Options // how files are read
	Claims       map[string]string
	Relist       time.Duration // how often the directories are read in any case; 0 is 20 s
	AllowKubelet bool
	// API is where the HTTP API is offered.
	API APIOptions
	// Reload gets the settings to go on with; nil for none.
	Reload <-chan *Node
	// Ready is called once the directories were read; Progress every Heartbeat with a
	// line about what is supervised, unless a worker is stuck.
	Ready     func()
	Progress  func(string)
	Heartbeat time.Duration
}

// Serve supervises the pods that manifest directories ask for, and those that
// commands applied, until ctx ends. Their containers go on then.
func (e *Engine) Serve(ctx context.Context, o ServeOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := serve.Options{AllowKubelet: o.AllowKubelet, Ready: o.Ready, Heartbeat: o.Heartbeat, StateChanges: e.stateChanges(ctx)}
	options.Housekeeping, options.HousekeepingEvery = e.rotateLogs, e.Settings.ContainerLogMonitorInterval
	options.Stats, options.Images, options.Collect = serve.NewStats(&e.Node), runtimeImages{e}, e.collectLeftovers
	options.Shutdowns = func(ctx context.Context) (serve.Shutdowns, error) {
		l, err := systemd.DialLogind(ctx)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	api := newAPI(e, o.API)
	api.observe(ctx, &options)
	defer api.close()
	defer cancel()
	if o.Progress != nil {
		options.Progress = func(s serve.Summary) {
			if len(s.Stuck) > 0 {
				e.WarnOnce(problem.Problem{Object: "pod " + s.Stuck[0], Message: "its worker has made no progress for 10 minutes"})
				return
			}
			o.Progress(s.String())
		}
	}
	if len(o.Dirs) > 0 {
		sources, remotes, err := e.newSources(o)
		if err != nil {
			return err
		}
		var polls sync.WaitGroup
		polls.Go(func() { remotes.Run(ctx) })
		defer polls.Wait()
		defer cancel()
		changed, stop := source.Watch(ctx, source.WatchOptions{Dirs: sources.reader.Dirs(), Relist: o.Relist, Also: remotes.Changed(),
			Report: func(p problem.Problem) { e.SendWarnings(problem.List{p}) }})
		defer stop()
		options.Sources, options.Changed = sources, changed
	}
	s := serve.New(&e.Node, options)
	api.supervised(s)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case n := <-o.Reload:
				api.tap(n)
				s.Reload(n)
			}
		}
	}()
	return s.Run(ctx)
}

// sources are manifest directories.
type sources struct {
	reader *source.Reader
	node   *node.Node
	claims map[string]string
	known  string // the identities of the directories that are on disk
}

func (e *Engine) newSources(o ServeOptions) (*sources, *source.Remotes, error) {
	s := &sources{node: &e.Node, claims: o.Claims}
	data, err := store.ReadState(e.Layout().DirIdentities())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read what is known of the manifest directories: %w", err)
	}
	var identities map[string]source.Identity
	if json.Unmarshal(data, &identities) == nil {
		s.known = string(data)
	}
	remotes, err := e.newRemotes(o)
	if err != nil {
		return nil, nil, &problem.Error{Kind: problem.Usage, Err: err}
	}
	s.reader, err = source.NewReader(source.Options{Dirs: o.Dirs, Remotes: remotes, Manifest: o.Manifest, Identities: identities})
	return s, remotes, err
}

// Read reads the directories. What could not be kept of them is a warning.
func (s *sources) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
	snapshot, err := s.reader.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	want := source.Merge(snapshot)
	_ = want.All().ServeClaims(s.claims) // unused ones may be of pods to come
	if err := s.keep(snapshot); err != nil {
		s.node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
	return snapshot, want, nil
}

// keep writes down by what the directories are known again, if that has changed.
func (s *sources) keep(snapshot *source.Snapshot) error {
	identities := map[string]source.Identity{}
	for _, d := range snapshot.Dirs {
		if source.IsRemote(d.Path) {
			continue
		}
		identities[d.Path] = d.Identity
	}
	data, err := json.Marshal(identities)
	if err == nil && string(data) != s.known {
		err = store.WriteState(s.node.Layout().DirIdentities(), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what is known of the manifest directories: %w", err)
	}
	s.known = string(data)
	return nil
}

// stateChanges gets the pods whose owner records or claims change; nil, with a
// warning, where the directories can't be watched.
func (e *Engine) stateChanges(ctx context.Context) <-chan identity.Pod {
	w, err := fsnotify.NewWatcher()
	for _, dir := range []string{e.Layout().Owners(), e.Layout().Claims()} {
		if err == nil {
			err = errors.Join(store.MakeStateDir(dir), w.Add(dir))
		}
	}
	if err != nil {
		e.SendWarnings(problem.List{problem.WarningOf(fmt.Errorf("watch the state of pods, which podrun polls instead: %w", err))})
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
			case <-w.Errors: // an overflow: the next scan finds what it lost
			case ev := <-w.Events:
				id, ok := store.NamedPod(filepath.Base(ev.Name))
				if !ok {
					continue
				}
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

// rotateLogs rotates the logs of running containers of podrun's that have grown too
// large.
func (e *Engine) rotateLogs(ctx context.Context, running []observe.Running) {
	size, err := e.Settings.LogMaxSize()
	if err != nil {
		e.WarnOnce(problem.WarningOf(err))
		return
	}
	r := podlog.Rotator{MaxSize: size, MaxFiles: int(e.Settings.ContainerLogMaxFiles), Workers: int(e.Settings.ContainerLogMaxWorkers)}
	var logs []podlog.Running
	for _, c := range running {
		if store.HasCheckpoint(e.Layout(), c.Pod.UID) {
			logs = append(logs, podlog.Running{ID: c.ID, Path: filepath.Join(e.Layout().Logs(c.Pod), c.Container, strconv.Itoa(int(c.Attempt))+".log")})
		}
	}
	if err := r.RotateAll(ctx, logs, e.Client.ReopenContainerLog); err != nil && ctx.Err() == nil {
		e.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// collectLeftovers removes what killed podruns left. A runtime that does not answer is
// reported elsewhere.
func (e *Engine) collectLeftovers(ctx context.Context) {
	if _, err := e.GC(ctx, GCOptions{Timeout: time.Minute}); err != nil && ctx.Err() == nil && !observe.IsUnavailable(err) {
		e.WarnOnce(problem.WarningOf(err))
	}
}

// Supervised tells whether `podrun serve` supervises the pods of this root
// directory.
func (e *Engine) Supervised() bool { return store.Supervised(e.Layout()) }

// SourceOf is the file that asks a running supervisor for a pod; "" for none.
func (e *Engine) SourceOf(id identity.Pod) string {
	r, err := store.ReadSource(e.Layout(), id)
	if err != nil || r == nil || !e.Supervised() {
		return ""
	}
	return source.Shown(r.Path)
}
