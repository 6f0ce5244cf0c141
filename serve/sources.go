package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// sources are the manifest directories and URLs of a supervisor. A reload may replace them.
type sources struct {
	ctx     context.Context
	node    *node.Node
	engine  *run.Engine
	options Options
	changed chan struct{} // receives a signal when the content may have changed

	mu     sync.Mutex // serializes reading and replacing the sources
	reader *source.Reader
	strict bool     // the setting strictSources
	copies []string // names of the URLs' copies
	swept  bool     // true when the copies of other URLs have been removed
	// the identities of the directories, as stored on disk
	known string
	end   func() // ends the watch and the polls
}

// newSources starts to watch the sources. changed, which has a buffer, receives signals. The watch ends when ctx ends or close is called. close
// returns when the watch has ended.
func newSources(ctx context.Context, e *run.Engine, o Options, changed chan struct{}) (*sources, error) {
	s := &sources{ctx: ctx, node: &e.Node, engine: e, options: o, strict: e.Settings.StrictSources, changed: changed}
	data, err := store.ReadState(e.Layout().DirIdentities())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the saved state of the manifest directories: %w", err)
	}
	var identities map[string]source.Identity
	if json.Unmarshal(data, &identities) == nil {
		s.known = string(data)
	}
	return s, s.open(o.Dirs)
}

// open starts to watch these sources instead of the previous ones. After an error, the
// previous ones remain in use.
func (s *sources) open(dirs []string) error {
	o := s.options
	o.Dirs = dirs
	remotes, err := newRemotes(s.engine, o)
	if err != nil {
		return &problem.Error{Kind: problem.Usage, Err: err}
	}
	var identities map[string]source.Identity
	// s.known was validated before, or is empty.
	_ = json.Unmarshal([]byte(s.known), &identities)
	reader, err := source.NewReader(source.Options{Dirs: dirs, Remotes: remotes, Manifest: o.Manifest, Strict: s.strict, Identities: identities})
	if err != nil {
		return err
	}
	if s.end != nil {
		s.end()
	}
	ctx, cancel := context.WithCancel(s.ctx)
	var loops sync.WaitGroup
	loops.Go(func() { remotes.Run(ctx) })
	signals, stop := source.Watch(ctx, source.WatchOptions{Dirs: reader.Dirs(), Relist: o.Relist, Also: remotes.Changed(),
		Report: func(p problem.Problem) { s.node.SendWarnings(problem.List{p}) }})
	loops.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				s.signal()
			}
		}
	})
	s.options, s.reader, s.copies, s.swept = o, reader, remotes.Copies(), false
	s.end = func() {
		cancel()
		stop()
		loops.Wait()
	}
	return nil
}

func (s *sources) signal() {
	select {
	case s.changed <- struct{}{}:
	default: // a signal is already pending
	}
}

// reload triggers a read of all sources. If the sources come from the settings, it first replaces
// them with the sources in the new settings. If podrun cannot use the new sources, reload reports
// that and keeps the previous ones.
func (s *sources) reload(settings nodeconfig.Settings) {
	if s == nil {
		return
	}
	defer s.signal()
	s.mu.Lock()
	defer s.mu.Unlock()
	dirs, strict := settings.SourcesOrDefault(), s.strict
	if !s.options.SettingsDirs {
		dirs = s.options.Dirs
	}
	if slices.Equal(dirs, s.options.Dirs) && settings.StrictSources == strict || s.ctx.Err() != nil {
		return
	}
	s.strict = settings.StrictSources
	if err := s.open(dirs); err != nil {
		s.strict = strict
		s.node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// close ends the watch of the directories and the polls of the URLs.
func (s *sources) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// Read reads the sources. If it cannot store their state, it prints a warning.
func (s *sources) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, err := s.reader.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	want := source.Merge(snapshot)
	want = withReplicas(ctx, s.engine, snapshot, want)
	// Unused claims may belong to pods that will be added later.
	_ = want.All().ServeClaims(s.options.Claims)
	if !s.swept {
		s.swept = true
		err = store.RemoveOtherCopies(s.node.Layout(), s.copies)
	}
	if err := errors.Join(err, s.keep(snapshot)); err != nil {
		s.node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
	return snapshot, want, nil
}

// keep stores the identities of the directories if they have changed.
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
		return fmt.Errorf("save the state of the manifest directories: %w", err)
	}
	s.known = string(data)
	return nil
}
