package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// sources are the manifest directories and URLs of a supervisor. A reload may replace them.
type sources struct {
	ctx     context.Context
	node    *node.Node
	engine  *run.Node
	options Options
	reread  func() // called when the content may have changed; it does not block

	mu     sync.Mutex // serializes reading and replacing the sources
	reader *source.Reader
	strict bool     // the setting strictSources
	copies []string // names of the URLs' copies
	swept  bool     // true when the copies of other URLs have been removed
	// the identities of the directories, as stored on disk; lost is true if podrun could not use the file
	known map[string]source.Identity
	lost  bool
	// unkept is true if the identities could not be stored, and this was reported
	unkept bool
	end    func() // ends the watch and the polls
}

// newSources starts to watch the sources, and calls reread when their content may have changed. The watch ends when ctx
// ends or close is called. close returns when the watch has ended. newSources returns nil if there are no sources.
func newSources(ctx context.Context, e *run.Node, o Options, reread func()) (*sources, error) {
	if len(o.Dirs) == 0 {
		return nil, nil
	}
	s := &sources{ctx: ctx, node: e, engine: e, options: o, strict: e.Settings.StrictSources, reread: reread}
	found := identitiesFile.Examine(ctx, e.Layout().Serve().DirIdentities())
	switch found.State {
	case statefile.Intact, statefile.Newer:
		s.known = found.Value
	case statefile.Corrupt, statefile.Unreadable:
		// Otherwise, podrun would take an empty mount point for the directory, and delete its pods.
		s.lost = true
		e.WarnOnce(found.Fault.Warning())
	case statefile.Absent: // the first start
	}
	return s, s.use(o.Dirs)
}

// identitiesFile contains the identities of the manifest directories, by which podrun detects that a directory
// was replaced by an empty mount point.
var identitiesFile = statefile.Declare(statefile.Kind[map[string]source.Identity]{
	What: "the identities of the manifest directories", Files: "serve/directories", Scope: statefile.Host,
	On:    statefile.Answers{Absent: "no directory was read", Corrupt: emptyUnreachable, Unreadable: emptyUnreachable, Newer: statefile.Partial},
	Paths: statefile.At(identity.Layout.Serve, identity.ServeDir.DirIdentities), Mode: 0o600,
})

// emptyUnreachable is the answer of identitiesFile.
const emptyUnreachable statefile.Action = "counts as absent, with a warning; an empty directory is unreachable until it has a file, so that its pods keep running"

// use starts to watch these sources instead of the previous ones. After an error, the
// previous ones remain in use.
func (s *sources) use(dirs []string) error {
	o := s.options
	o.Dirs = dirs
	remotes, err := newRemotes(s.ctx, s.engine, o)
	if err != nil {
		return &problem.Error{Kind: problem.Usage, Err: err}
	}
	reader, err := source.NewReader(source.Options{
		Dirs:           dirs,
		Remotes:        remotes,
		Manifest:       o.Manifest,
		Strict:         s.strict,
		Verification:   verification(s.engine, o),
		Identities:     s.known,
		IdentitiesLost: s.lost,
	})
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
				s.reread()
			}
		}
	})
	s.options = o
	s.reader = reader
	s.copies = remotes.Copies()
	s.swept = false
	s.end = func() {
		cancel()
		stop()
		loops.Wait()
	}
	return nil
}

// reload triggers a read of all sources. If the sources come from the settings, it first replaces
// them with the sources in the new settings. If podrun cannot use the new sources, reload reports
// that and keeps the previous ones.
func (s *sources) reload(n *run.Node) {
	settings := n.Settings
	defer s.reread()
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
	if err := s.use(dirs); err != nil {
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
	want := source.MergeFrom(snapshot, Origins(s.node.Layout()))
	want = withReplicas(ctx, s.engine, snapshot, want)
	// Unused claims may belong to pods that will be added later.
	_ = want.All().ServeClaims(s.options.Claims)
	if !s.swept {
		s.swept = true
		err = store.RemoveOtherCopies(s.node.Layout(), s.copies)
	}
	if err != nil {
		s.node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
	err = s.keep(snapshot)
	if err != nil && !s.unkept { // each error names another temporary file
		s.node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
	s.unkept = err != nil
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
	if maps.Equal(identities, s.known) && s.known != nil {
		return nil
	}
	err := identitiesFile.Write(s.node.Layout().Serve().DirIdentities(), identities)
	if err != nil && !statefile.IsNewer(err) {
		return fmt.Errorf("save the state of the manifest directories: %w", err)
	}
	s.known = identities
	s.lost = false
	return nil
}
