package engine

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/inherited"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// TestMain hides all programs from the engine, for two reasons: these tests must not depend on this
// host's firewall rules, and a process that one test starts inherits the locks of the other tests
// until it executes its program.
func TestMain(m *testing.M) {
	// By default, Go runs one test per CPU in parallel, but parallel tests of this package wait most of the time.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	inherited.Reset()
	os.Unsetenv("PATH")
	os.Exit(m.Run())
}

// rig is a host for tests of the engine. It has a fake runtime, separate directories and a
// separate cgroup root. Its cgroups are real.
type rig struct {
	t        testing.TB
	rt       *critest.Runtime
	settings nodeconfig.Settings
	keep     bool // apiClient keeps the pods
	// a client of a socket of rt; if it is nil, the engine uses rt's own client
	client *cri.Client
	repair func(ctx context.Context, since time.Time) bool // Node.RepairImages

	mu       sync.Mutex
	events   []event.Event
	warnings []string
}

// requireRoot skips a test that creates cgroups and mounts if it does not run as root.
func requireRoot(t testing.TB) {
	t.Helper()
	ring.RequireRoot(t)
}

// newRig returns a host on which every image of registry.example is present.
func newRig(t testing.TB, opts ...critest.Option) *rig {
	t.Helper()
	requireRoot(t)
	r := &rig{t: t, rt: critest.ForTest(t, opts...), settings: testSettings(memoryDir(t))}
	for _, name := range []string{"app", "web", "db", "setup"} {
		r.rt.AddImage(critest.Image{Name: "registry.example/" + name + ":1", Entrypoint: []string{"/server"}})
		r.rt.AddImage(critest.Image{Name: "registry.example/" + name + ":2", Entrypoint: []string{"/server"}})
	}
	t.Cleanup(func() { removeCgroupRoot(t, r.settings.CgroupRoot) })
	return r
}

// memoryDir creates a directory in memory if possible. podrun syncs the files that it writes, and
// these tests make it write thousands of files.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "podrun-ut-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// testSettings returns the settings of a host below a directory.
func testSettings(dir string) nodeconfig.Settings {
	s := nodeconfig.Default()
	// The thresholds are off, because the disks of this machine may be full.
	s.EvictionHard = nil
	s.RootDir = filepath.Join(dir, "root")
	s.PodLogsDir = filepath.Join(dir, "logs")
	s.ContainerLogsDir = filepath.Join(dir, "links")
	s.CgroupRoot = "/podrun-ut-" + store.RandomHex(6)
	s.HostnameOverride = "node-a"
	s.RegistryPullQPS = 0
	// These tests must not depend on the disk of this machine.
	s.EvictionHard = nil
	return s
}

// cgroupsOf lists the directories of a cgroup root in all hierarchies.
func cgroupsOf(root string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup" + root, "/sys/fs/cgroup/*" + root} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			panic(err)
		}
		found = append(found, dirs...)
	}
	return found
}

// removeCgroupRoot removes the leftovers in the cgroup root of a test that failed or kept its pods.
func removeCgroupRoot(t testing.TB, root string) {
	for _, dir := range cgroupsOf(root) {
		var all []string
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return err
		})
		for _, d := range slices.Backward(all) {
			err = errors.Join(err, os.Remove(d))
		}
		if err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	}
}

// engine returns another podrun process on the host.
func (r *rig) engine() *run.Node {
	client := r.client
	if client == nil {
		client = r.rt.Client()
	}
	return &node.Node{
		Client: client, Settings: r.settings, Invocation: run.NewInvocation(), Command: "podrun test", RepairImages: r.repair,
		Emit: func(e event.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
		Warn: func(l problem.List) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, p := range l {
				r.warnings = append(r.warnings, p.Message)
			}
		},
	}
}

// load parses manifests. An input of ConfigMaps and Secrets alone, which has no pod, is valid for Apply.
func load(t testing.TB, texts ...string) *manifest.Objects {
	t.Helper()
	objects, problems := manifest.Load([]input.Source{{Name: "test.yaml", Data: []byte(strings.Join(texts, "\n---\n"))}}, manifest.Options{Services: true})
	if errs := problems.Errors(); len(errs) > 0 && !objects.OnlyReferred() {
		t.Fatalf("the test's manifest: %v", errs)
	}
	return objects
}

const testTimeout = 10 * time.Minute

// applyAll runs `podrun apply` as a separate process.
func (r *rig) applyAll(ctx context.Context, texts ...string) ([]run.Result, error) {
	r.t.Helper()
	return run.ApplyPods(ctx, r.engine(), load(r.t, texts...), run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true})
}

// apply applies one pod, and returns its result.
func (r *rig) apply(text string) run.Result {
	r.t.Helper()
	return r.applyWithin(r.t.Context(), text, testTimeout)
}

// applyWithin applies one pod with a timeout. If podrun refuses the pod, applyWithin returns the
// refusal as a result.
func (r *rig) applyWithin(ctx context.Context, text string, timeout time.Duration) run.Result {
	r.t.Helper()
	results, err := run.ApplyPods(ctx, r.engine(), load(r.t, text), run.ApplyOptions{Timeout: timeout, AllowKubelet: true})
	if err != nil {
		return run.Result{Outcome: run.OutcomeFailed, Err: err}
	}
	return results[0]
}

// mustApply applies one pod and checks the outcome.
func (r *rig) mustApply(text string, want run.Outcome) run.Result {
	r.t.Helper()
	result := r.apply(text)
	if result.Err != nil || result.Outcome != want {
		r.t.Fatalf("apply: %s, %v; want %s", result.Outcome, result.Err, want)
	}
	return result
}

// delete runs `podrun delete` on the named pods, or on all pods if no names are given.
func (r *rig) delete(o run.DeleteOptions, names ...string) []run.Result {
	r.t.Helper()
	e := r.engine()
	known, err := lookup.Find(r.t.Context(), e, lookup.Selector{Names: names})
	if err != nil {
		r.t.Fatal(err)
	}
	results, err := run.DeletePods(r.t.Context(), e, known, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return results
}

// mustDelete deletes all pods and checks that nothing remains.
func (r *rig) mustDelete() {
	r.t.Helper()
	for _, result := range r.delete(run.DeleteOptions{}) {
		if result.Err != nil {
			r.t.Errorf("delete %s: %v", result.ID, result.Err)
		}
	}
	r.nothingLeft()
}

// noError checks the results of a command.
func (r *rig) noError(results []run.Result, errs ...error) {
	r.t.Helper()
	if err := errorOf(results, errors.Join(errs...)); err != nil {
		r.t.Error(err)
	}
}

// exit makes the newest container with this name exit.
func (r *rig) exit(name string, code int32) {
	r.t.Helper()
	if err := r.rt.Exit(name, code); err != nil {
		r.t.Fatal(err)
	}
}

// dial serves the runtime on a socket until the end of the test, and returns a client of the socket. Only there
// does the fake runtime serve containerd's own services.
func (r *rig) dial() *cri.Client {
	r.t.Helper()
	socket := filepath.Join(r.t.TempDir(), "s")
	stop, err := r.rt.Serve(socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(stop)
	client, err := cri.Dial("unix://"+socket, "", time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { client.Close() })
	return client
}

// known lists the existing pods.
func (r *rig) known() []run.Known {
	r.t.Helper()
	known, err := lookup.Find(r.t.Context(), r.engine(), lookup.Selector{})
	if err != nil {
		r.t.Fatal(err)
	}
	return known
}

// residue lists all remaining objects of pods on the host, except locks.
func (r *rig) residue() []string {
	left := r.rt.Leaked()
	for _, dir := range []string{r.layout().PodsDir(), r.settings.PodLogsDir, r.settings.ContainerLogsDir, r.layout().Owners(), r.layout().Claims()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			r.t.Error(err)
		}
		for _, e := range entries {
			// This file belongs to a running command.
			if path := filepath.Join(dir, e.Name()); dir != r.layout().Claims() || !hostfile.IsLocked(path) {
				left = append(left, path)
			}
		}
	}
	return append(left, cgroupsOf(r.settings.CgroupRoot)...)
}

// nothingLeft checks that no sandbox, container, directory, log, link, cgroup or held lock
// remains.
func (r *rig) nothingLeft() {
	r.t.Helper()
	if left := r.residue(); len(left) > 0 {
		r.t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	r.noLockHeld()
}

// noLockHeld checks that no process holds a lock.
func (r *rig) noLockHeld() {
	r.t.Helper()
	entries, err := os.ReadDir(r.layout().Locks())
	if err != nil && !os.IsNotExist(err) {
		r.t.Error(err)
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(r.layout().Locks(), e.Name()))
		if err != nil {
			r.t.Error(err)
			continue
		}
		// The kernel may close the files of a killed process some time after its exit.
		patience.Wait(r.t, patience.OnFake, "lock "+e.Name()+" is free", func() bool {
			return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
		})
		f.Close()
	}
}

func (r *rig) layout() identity.Layout { return r.settings.Layout() }

// reasons lists the reasons of all events so far. If an event is about a container, its name
// follows: "Started app".
func (r *rig) reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		name := ""
		if _, rest, ok := strings.Cut(e.FieldPath, "{"); ok {
			name = " " + strings.TrimSuffix(rest, "}")
		}
		out = append(out, e.Reason+name)
	}
	return out
}

// emitted reports whether an event has the given reason (in the format of reasons) and text.
func (r *rig) emitted(reason, text string) bool {
	all := r.reasons()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.events {
		if all[i] == reason && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

// kindOf returns the kind of the first problem.Error in an error; or "" if there is none.
func kindOf(err error) problem.Kind {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e.Kind
	}
	return ""
}

// wantErr checks the kind and the text of an error.
func wantErr(t testing.TB, err error, kind problem.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if got := kindOf(err); got != kind {
		t.Errorf("kind %q, want %q: %v", got, kind, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error without %q: %v", w, err)
		}
	}
}

// podText returns a pod with the given name, restart policy and lines of its spec. It indents
// the lines by two spaces.
func podText(name, policy string, spec ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  restartPolicy: " + policy + "\n" +
		"  " + strings.Join(strings.Split(strings.Join(spec, "\n"), "\n"), "\n  ") + "\n"
}

// runPods runs pods to completion, and returns the results of the pods.
func runPods(ctx context.Context, e *run.Node, objects *manifest.Objects, o run.RunOptions) ([]run.Result, error) {
	report, err := run.Run(ctx, e, objects, o)
	return resultsOf(report), err
}

// resultsOf returns the results of a report's pods.
func resultsOf(r run.Report) (out []run.Result) {
	for _, e := range r.Pods() {
		out = append(out, e.Result)
	}
	return out
}

// restartPods recreates pods.
func restartPods(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
	o.Force = true
	return run.StartPods(ctx, e, pods, o)
}
