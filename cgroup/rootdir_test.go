package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// member starts a process in a group below the pod's group, like that of a container. The
// returned channel receives the exit status of the process.
func member(t *testing.T, p Plan) <-chan error {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for _, dir := range p.hierarchies().dirs(p.Pods[0]) {
		if strings.Contains(dir, "/cpuset/") || !exists(dir) {
			// The lists of a new cpuset are empty, so no process can join it.
			continue
		}
		inner := filepath.Join(dir, "container")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(fmt.Sprint(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	return ended
}

// of returns the plan of a podrun process with the given root directory for the pod of the test.
func of(t *testing.T, root string, s nodeconfig.Settings) Plan {
	t.Helper()
	facts, _ := live(t)
	s.RootDir = root
	return New(Input{Pod: podOf(corev1.PodQOSBurstable), Facts: facts, Settings: s})
}

// holder returns the root directory that ReadHolders reports for the pod of these tests to the
// podrun process of the plan.
func holder(t *testing.T, p Plan, s nodeconfig.Settings) (rootDir string, held bool) {
	t.Helper()
	facts, _ := live(t)
	s.RootDir = p.RootDir
	rootDir, held = ReadHolders(facts.Cgroup, s, func(string) bool { return false })[uid]
	return rootDir, held
}

// TestRemoveSparesOtherRootDirs checks that podrun does not empty, remove or join a group with the
// mark of another root directory.
func TestRemoveSparesOtherRootDirs(t *testing.T) {
	facts, s := live(t)
	a, b := of(t, "/data/a", s), of(t, "/data/b", s)
	if err := Apply(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.RootDir = "/data/b"
	removals := map[string]func() error{
		"of a known pod":   func() error { return Remove(t.Context(), b) },
		"of an unknown":    func() error { return Remove(t.Context(), Leftovers(uid, facts.Cgroup, s)) },
		"of an empty one":  func() error { return Remove(t.Context(), b) },
		"after a rollback": func() error { return errors.Join(Remove(t.Context(), b), Remove(t.Context(), b)) },
	}
	for _, name := range []string{"of an empty one", "of a known pod", "of an unknown", "after a rollback"} {
		var ended <-chan error
		if name == "of a known pod" {
			ended = member(t, a)
		}
		if err := removals[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case err := <-ended:
			t.Fatalf("%s: the process of the other pod ended: %v", name, err)
		default:
		}
		for _, dir := range a.hierarchies().dirs(a.Pods[0]) {
			if !a.hierarchies().skipped(dir) && !exists(dir) {
				t.Fatalf("%s: removed %s", name, dir)
			}
		}
	}
	err := Apply(t.Context(), b)
	if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != problem.Refused || !strings.Contains(err.Error(), "/data/a") {
		t.Errorf("the pod of another root directory joined it: %v", err)
	}
	if err := Remove(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if left := remains(t, a); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := errors.Join(Apply(t.Context(), b), Remove(t.Context(), b)); err != nil {
		t.Errorf("after the other pod: %v", err)
	}
}

// TestMarksOfOlderPodruns checks that podrun can remove a pod of its own root directory even if
// the root-directory attribute, or all attributes, are missing.
func TestMarksOfOlderPodruns(t *testing.T) {
	for name, unmark := range map[string][]string{
		"without a root directory": {"trusted.podrun.root-dir"},
		"no marks":                 {"trusted.podrun.root-dir", "trusted.podrun"},
	} {
		t.Run(name, func(t *testing.T) {
			facts, s := live(t)
			p := of(t, "/data/a", s)
			if err := Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := Remove(context.Background(), p); err != nil {
					t.Error(err)
				}
			}()
			if owner := p.ownerOf(p.Pods[0]); owner != "/data/a" {
				t.Errorf("marked with %q", owner)
			}
			for _, attribute := range unmark {
				for _, dir := range p.hierarchies().dirs(p.Pods[0]) {
					_ = unix.Removexattr(dir, attribute)
				}
			}
			b := of(t, "/data/b", s)
			if root, held := holder(t, b, s); held {
				t.Errorf("an empty group is held: %q", root)
			}
			ended := member(t, p)
			marked := len(unmark) == 1
			if root, held := holder(t, b, s); held != marked || root != "" {
				t.Errorf("with processes: held by %q: %v", root, held)
			}
			s.RootDir = "/data/b"
			if err := RemoveUnused(t.Context(), Leftovers(uid, facts.Cgroup, s)); err == nil || !strings.Contains(err.Error(), "processes") {
				t.Errorf("removed as a leftover: %v", err)
			}
			select {
			case err := <-ended:
				t.Fatalf("the process ended: %v", err)
			default:
			}
			s.RootDir = "/data/a"
			if err := Remove(t.Context(), Leftovers(uid, facts.Cgroup, s)); err != nil {
				t.Errorf("by the podrun that owns the pod: %v", err)
			}
			<-ended
		})
	}
}

// TestAdoptsMarksOfOlderPodruns checks that podrun adds the root directory to the mark of a
// group when it changes the group of its own pod.
func TestAdoptsMarksOfOlderPodruns(t *testing.T) {
	_, s := live(t)
	p := of(t, "/data/a", s)
	if err := Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := Remove(context.Background(), p); err != nil {
			t.Error(err)
		}
	}()
	for _, dir := range p.hierarchies().dirs(p.Pods[0]) {
		_ = unix.Removexattr(dir, rootMarkName)
	}
	p.Pods[0].Resources.CPUShares, p.Pods[0].Resources.CPUWeight = 600, 30
	p.Pods[0].MilliCPU = 600
	if err := Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if root, held := holder(t, of(t, "/data/b", s), s); root != "/data/a" || !held {
		t.Errorf("held by %q: %v", root, held)
	}
}

// TestMarkOfAKilledPodrun covers a podrun process that is killed before it marks its groups. A
// podrun process of another root directory must then mark the groups with the root directory of the
// killed process.
func TestMarkOfAKilledPodrun(t *testing.T) {
	_, s := live(t)
	a, b := of(t, "/data/a \"b\"\n", s), of(t, "/data/b", s)
	if a.Driver == "systemd" {
		t.Skip("systemd creates the groups")
	}
	a.Lock = filepath.Join(t.TempDir(), "run", "cgroups")
	b.Lock = a.Lock
	lock, err := openLock(a.Lock)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	missing := a.hierarchies().missing(a.Pods[0], map[string]bool{})
	a.recordCreating(a.Pods[0], missing)
	for _, dir := range missing {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Apply(t.Context(), b); err == nil {
		t.Error("the pod of another root directory joined it")
	}
	if root, held := holder(t, b, s); root != a.RootDir || !held {
		t.Errorf("held by %q: %v", root, held)
	}
	if err := Remove(t.Context(), a); err != nil {
		t.Error(err)
	}
	if left := remains(t, a); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
