package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/source"
	"github.com/podrun/podrun/serve/supervisor"
)

// manifests simulates the manifest directories of a supervisor, which the test writes.
type manifests struct {
	t       testing.TB
	changed chan struct{}

	mu   sync.Mutex
	dirs []source.Dir
	// origin is an argument of source.MergeFrom.
	origin func(kind, key string) string
	texts  map[string]string // content of the files whose objects are known
}

func newManifests(t testing.TB, dirs ...string) *manifests {
	m := &manifests{t: t, changed: make(chan struct{}, 1), texts: map[string]string{}}
	for _, d := range dirs {
		m.dirs = append(m.dirs, source.Dir{Path: d, State: source.Present})
	}
	return m
}

// Read implements supervisor.Sources.
func (m *manifests) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
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
func (m *manifests) change(path string, f func(d *source.Dir, i int)) {
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
func (m *manifests) load(path, text string) *manifest.Objects {
	m.t.Helper()
	objects, problems := manifest.Load([]input.Source{{Name: path, Data: []byte(text)}}, manifest.Options{})
	for _, p := range problems.Errors() {
		if p.Reason != "NoPod" {
			m.t.Fatalf("the test's manifest: %v", p)
		}
	}
	return objects
}

// write sets the content of a file.
func (m *manifests) write(path string, texts ...string) {
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

// remove removes a file.
func (m *manifests) remove(path string) {
	m.t.Helper()
	m.change(path, func(d *source.Dir, i int) {
		delete(m.texts, path)
		if i >= 0 && d.State == source.Present {
			d.Files = slices.Delete(d.Files, i, i+1)
		}
	})
}

// breakFile gives a file invalid content, so that its previous content remains in effect.
func (m *manifests) breakFile(path string) {
	m.t.Helper()
	m.change(path, func(d *source.Dir, i int) { d.Files[i].State = source.Broken })
}

// forget discards the known content of unreadable files, as happens when podrun restarts.
func (m *manifests) forget() {
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

// reach makes a directory readable, with the current content of its files, or unreadable.
func (m *manifests) reach(dir string, reachable bool) {
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

// serving is a running supervisor.
type serving struct {
	*rig
	files *manifests
	end   func()
	super *supervisor.Supervisor
	// node is the resource usage of the host and its pods, for tests of evictions. It is nil in
	// other tests.
	node *usedNode
	// evicted contains the signals of the evictions so far.
	evicted []string
	// host announces shutdowns. It is nil if the host does not announce shutdowns.
	host *fakeHost
	// real makes the supervisor read the usage of this machine instead; it may be nil.
	real func(*run.Node) supervisor.Stats
}

const served = "/etc/podrun/manifests"

// file returns the path of a manifest file.
func file(name string) string { return filepath.Join(served, name+".yaml") }

// serveTest runs a test in a bubble, with a supervisor of one directory. At the end, it removes
// the files, and checks that nothing remains.
func serveTest(t *testing.T, test func(t *testing.T, s *serving), opts ...critest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		(&serving{rig: newRig(t, opts...), files: newManifests(t, served)}).run(t, test)
	})
}

// serveTestWithoutGroups is serveTest without cgroups, which take most of the time of a test.
func serveTestWithoutGroups(t *testing.T, test func(t *testing.T, s *serving)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &serving{rig: newRig(t), files: newManifests(t, served)}
		s.settings.CgroupsPerQOS = false
		s.run(t, test)
	})
}

func (s *serving) run(t *testing.T, test func(t *testing.T, s *serving)) {
	s.start()
	test(t, s)
	s.finish()
}

// start starts a supervisor, which acts like a separate process.
func (s *serving) start() {
	s.t.Helper()
	e := s.engine()
	ready := make(chan struct{})
	s.files.origin = serve.Origins(e.Layout())
	o := supervisor.Options{Sources: s.files, Changed: s.files.changed, AllowKubelet: true, Ready: func() { close(ready) }}
	// Only one goroutine calls this function.
	o.Evicted = func(signal string) { s.evicted = append(s.evicted, signal) }
	if s.node != nil {
		o.Stats, o.Images = s.node, serve.Images(e)
	}
	if s.host != nil {
		o.Shutdowns = s.host.connect
	}
	if s.real != nil {
		o.Stats = s.real(e)
	}
	s.super = supervisor.New(e, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.super.Run(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		s.t.Fatalf("serve: %v", err)
	}
	// This stops the supervisor if the test fails before it calls s.end.
	s.t.Cleanup(cancel)
	s.end = func() {
		s.t.Helper()
		cancel()
		begun := time.Now()
		if err := <-done; err != nil {
			s.t.Errorf("serve: %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			s.t.Errorf("serve took %s to exit", took)
		}
		s.end = nil
	}
}

// restart stops the supervisor and starts another one.
func (s *serving) restart() {
	s.t.Helper()
	s.end()
	s.start()
}

// finish removes all files and then the pods of commands, stops the supervisor, and checks that
// nothing remains.
func (s *serving) finish() {
	s.t.Helper()
	for _, path := range s.paths() {
		s.files.remove(path)
	}
	if s.end == nil {
		s.start()
	}
	time.Sleep(2 * time.Minute)
	s.delete(run.DeleteOptions{})
	time.Sleep(time.Minute)
	if sum := s.super.Summary(); len(sum.Pods) > 0 {
		s.t.Errorf("supervised without a pod: %s", sum)
	}
	s.end()
	s.nothingLeft()
	s.noSourceLeft()
}

func (s *serving) paths() []string {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	var out []string
	for _, d := range s.files.dirs {
		for _, f := range d.Files {
			out = append(out, f.Path)
		}
	}
	return out
}

// noSourceLeft checks that no source record remains.
func (r *rig) noSourceLeft() {
	r.t.Helper()
	left, err := filepath.Glob(filepath.Join(r.layout().Sources(), "*"))
	if err != nil || len(left) > 0 {
		r.t.Errorf("source records left: %v %v", left, err)
	}
}

// running returns the newest container with this name, and fails the test unless it is running.
func (s *serving) running(name string) critest.Container {
	s.t.Helper()
	c, ok := s.rt.Container(name)
	if !ok || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		s.t.Fatalf("container %s does not run: %+v; warnings %q, events %q", name, c, s.warnings, s.reasons())
	}
	return c
}

// same checks that the container with this name is still the same container.
func (s *serving) same(before critest.Container) {
	s.t.Helper()
	if c := s.running(before.Name); c.ID != before.ID {
		s.t.Errorf("container %s was replaced: attempt %d, was %d", before.Name, c.Config.GetMetadata().GetAttempt(), before.Config.GetMetadata().GetAttempt())
	}
}

// absent checks that no container has this name.
func (s *serving) absent(name string) {
	s.t.Helper()
	if c, ok := s.rt.Container(name); ok {
		s.t.Errorf("container %s exists: %v", name, c.State)
	}
}

// has returns a function that reports whether a container has this name.
func (r *rig) has(name string) func() bool {
	return func() bool {
		_, ok := r.rt.Container(name)
		return ok
	}
}

// starts returns the times at which containers with this name were started.
func (s *serving) starts(name string) []time.Time {
	var out []time.Time
	for _, c := range s.rt.Calls() {
		if c.Method == "StartContainer" && c.Subject == name && c.Err == nil {
			out = append(out, c.Start)
		}
	}
	return out
}

// wantStarts checks the number of times that containers with this name were started.
func (s *serving) wantStarts(name string, want int) {
	s.t.Helper()
	if got := len(s.starts(name)); got != want {
		s.t.Errorf("container %s was started %d times, want %d; warnings %q", name, got, want, s.warnings)
	}
}

// warned counts the warnings that contain a text.
func (r *rig) warned(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.warnings {
		if strings.Contains(w, text) {
			n++
		}
	}
	return n
}

// pod finds a pod on this host.
func (s *serving) pod(name string) []run.Known {
	s.t.Helper()
	known, err := lookup.Find(s.t.Context(), s.engine(), lookup.Selector{Names: []string{name}})
	if err != nil {
		s.t.Fatal(err)
	}
	return known
}

// outage makes the runtime unavailable until the returned function is called.
func (r *rig) outage() (end func()) {
	var ends []func()
	for _, method := range allMethods {
		ends = append(ends, r.rt.Fault(method, critest.Fault{When: critest.Before}))
	}
	return func() {
		for _, e := range ends {
			e()
		}
	}
}

var allMethods = []string{"Version", "Status", "RuntimeConfig", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox",
	"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ListContainers", "ContainerStatus", "ExecSync", "UpdateContainerResources",
	"ImageStatus", "PullImage", "ListImages", "RemoveImage", "ReopenContainerLog"}

// volumeFile returns the content of a file in a volume that is mounted into a container.
func (s *serving) volumeFile(c critest.Container, dir, name string) string {
	s.t.Helper()
	for _, m := range c.Config.GetMounts() {
		if m.GetContainerPath() == dir {
			data, err := os.ReadFile(filepath.Join(m.GetHostPath(), name))
			if err != nil {
				s.t.Error(err)
			}
			return string(data)
		}
	}
	s.t.Errorf("nothing is mounted at %s", dir)
	return ""
}
