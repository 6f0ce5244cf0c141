package rig

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/serve/source"
	"github.com/podrun/podrun/serve/supervisor"
)

// Manifests simulates the manifest directories of a supervisor, which the test writes.
type Manifests struct {
	t       testing.TB
	changed chan struct{} // notifies the supervisor of changes

	mu   sync.Mutex
	dirs []source.Dir
	// origin is an argument of source.MergeFrom.
	origin func(kind, key string) string
	texts  map[string]string // content of the files whose objects are known
}

// NewManifests returns directories without files.
func NewManifests(t testing.TB, dirs ...string) *Manifests {
	m := &Manifests{t: t, changed: make(chan struct{}, 1), texts: map[string]string{}}
	for _, d := range dirs {
		m.dirs = append(m.dirs, source.Dir{Path: d, State: source.Present})
	}
	return m
}

// Options returns the options of a supervisor of these directories.
func (m *Manifests) Options() supervisor.Options {
	return supervisor.Options{Sources: m, Changed: m.changed, AllowKubelet: true}
}

// Read implements supervisor.Sources.
func (m *Manifests) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &source.Snapshot{}
	for _, d := range m.dirs {
		d.Files = slices.Clone(d.Files)
		s.Dirs = append(s.Dirs, d)
	}
	return s, source.MergeFrom(s, m.origin), ctx.Err()
}

// change changes the directory of a file, and notifies the supervisor.
func (m *Manifests) change(path string, f func(d *source.Dir, i int)) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.dirs {
		if d := &m.dirs[n]; d.Path == filepath.Dir(path) || d.Path == path {
			f(d, slices.IndexFunc(d.Files, func(f source.File) bool { return f.Path == path }))
			select {
			case m.changed <- struct{}{}:
			default:
			}
			return
		}
	}
	m.t.Fatalf("no directory of %s", path)
}

// load parses a file. The file need not contain a pod.
func (m *Manifests) load(path, text string) *manifest.Objects {
	m.t.Helper()
	objects, problems := manifest.Load([]input.Source{{Name: path, Data: []byte(text)}}, manifest.Options{})
	for _, p := range problems.Errors() {
		if p.Reason != "NoPod" {
			m.t.Fatalf("the test's manifest: %v", p)
		}
	}
	return objects
}

// Write sets the content of a file.
func (m *Manifests) Write(path string, texts ...string) {
	m.t.Helper()
	text := strings.Join(texts, "\n---\n")
	objects := m.load(path, text)
	m.change(path, func(d *source.Dir, i int) {
		m.texts[path] = text
		if d.State == source.Unreachable {
			// The change takes effect when the directory can be read again.
			return
		}
		f := source.File{Path: path, State: source.Good, Objects: objects}
		if i >= 0 {
			d.Files[i] = f
			return
		}
		d.Files = append(d.Files, f)
		slices.SortFunc(d.Files, func(a, b source.File) int { return strings.Compare(a.Path, b.Path) })
	})
}

// Remove removes a file.
func (m *Manifests) Remove(path string) {
	m.t.Helper()
	m.change(path, func(d *source.Dir, i int) {
		delete(m.texts, path)
		if i >= 0 && d.State == source.Present {
			d.Files = slices.Delete(d.Files, i, i+1)
		}
	})
}

// Break gives a file invalid content, so that its previous content remains in effect.
func (m *Manifests) Break(path string) {
	m.t.Helper()
	m.change(path, func(d *source.Dir, i int) { d.Files[i].State = source.Broken })
}

// Forget discards the known content of unreadable files, as happens when podrun restarts.
func (m *Manifests) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.dirs {
		d := &m.dirs[n]
		if d.State == source.Unreachable {
			d.Files = nil
		}
		for i := range d.Files {
			if d.Files[i].State == source.Broken {
				d.Files[i].Objects = nil
			}
		}
	}
}

// Reachable reports whether a directory is readable.
func (m *Manifests) Reachable(dir string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.dirs, func(d source.Dir) bool { return d.Path == dir && d.State == source.Present })
}

// Reach makes a directory readable, with the current content of its files, or unreadable.
func (m *Manifests) Reach(dir string, reachable bool) {
	m.t.Helper()
	m.change(dir, func(d *source.Dir, _ int) {
		if d.State = source.Unreachable; !reachable {
			return
		}
		d.State, d.Files = source.Present, nil
		for path, text := range m.texts {
			if filepath.Dir(path) == dir {
				d.Files = append(d.Files, source.File{Path: path, State: source.Good, Objects: m.load(path, text)})
			}
		}
		slices.SortFunc(d.Files, func(a, b source.File) int { return strings.Compare(a.Path, b.Path) })
	})
}
