package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/test/ring"
)

// live returns the facts of this machine, and settings with a cgroup root for this test.
// PODRUN_CGROUP_DRIVER overrides the cgroup driver in the settings.
func live(t testing.TB) (host.Facts, nodeconfig.Settings) {
	t.Helper()
	ring.RequireRoot(t)
	s := nodeconfig.Default()
	s.CgroupDriver = os.Getenv("PODRUN_CGROUP_DRIVER")
	s.CgroupRoot = fmt.Sprintf("/podrun-cgroup-test-%d", os.Getpid())
	facts, err := discover.Read(context.Background(), nil, s, discover.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return facts, s
}

// liveCgroupfs is live for tests that create the directories of groups. The function planOf returns a pod's
// plan; the lock of the plans belongs to this test.
func liveCgroupfs(t testing.TB) (facts host.Facts, s nodeconfig.Settings, planOf func(*corev1.Pod) Plan) {
	t.Helper()
	facts, s = live(t)
	lock := filepath.Join(t.TempDir(), "run", "cgroups")
	planOf = func(pod *corev1.Pod) Plan {
		p := New(Input{Pod: pod, Facts: facts, Settings: s})
		if p.Driver == host.DriverSystemd {
			t.Skip("systemd creates and removes the groups")
		}
		p.Lock = lock
		return p
	}
	return facts, s, planOf
}

// remains returns the leftovers of the test's cgroup root in all hierarchies. If systemd
// manages cgroups, it also returns the leftovers of the root's units.
func remains(t testing.TB, p Plan) []string {
	t.Helper()
	out := remainingUnits(t, p)
	// The name of a slice contains no dashes within its parts.
	root := groupPath(p.Driver, p.Root)
	for _, mount := range p.Mounts {
		err := filepath.WalkDir(mount, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(path, mount+root) {
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(out)
	// Several controllers may share a mount.
	return slices.Compact(out)
}

// remainingUnits returns the slices of the test's cgroup root that systemd still has loaded.
func remainingUnits(t testing.TB, p Plan) []string {
	t.Helper()
	if p.Driver != host.DriverSystemd {
		return nil
	}
	name, _ := unit(groupPath(p.Driver, p.Root))
	list := exec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", name, strings.TrimSuffix(name, ".slice")+"-*.slice")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var units []string
	for line := range strings.Lines(string(out)) {
		units = append(units, strings.Fields(line)[0])
	}
	return units
}

// TestApplyAndRemoveLeaveNothing checks that a hundred pods leave no cgroups behind, because pod
// cgroups that outlived their pods made hosts slow (k8s#112151, #64137, cri-o#5490).
func TestApplyAndRemoveLeaveNothing(t *testing.T) {
	facts, s := live(t)
	ctx := t.Context()
	classes := []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}
	var slowest time.Duration
	var p Plan
	for i := range 100 {
		pod := podOf(classes[i%3])
		p = New(Input{Pod: pod, Facts: facts, Settings: s})
		start := time.Now()
		if err := Apply(ctx, p); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(start))
		if err := Apply(ctx, p); err != nil {
			t.Fatalf("again: %v", err)
		}
		for _, dir := range p.hierarchies().dirs(p.Pods[0]) {
			if !p.hierarchies().skipped(dir) && !exists(dir) {
				t.Fatalf("the pod's cgroup %s does not exist", dir)
			}
		}
		for range 2 {
			if err := Remove(ctx, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("slowest Apply: %s", slowest)
	if left := remains(t, p); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestApplySetsValues(t *testing.T) {
	facts, s := live(t)
	s.PodPidsLimit = 77
	p := New(Input{Pod: pod(list("500m", "32Mi"), list("1", "64Mi")), Facts: facts, Settings: s})
	if err := Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := Remove(context.Background(), p); err != nil {
			t.Error(err)
		}
	}()
	at := func(group Group, controller, file string) string {
		mount := p.Mounts[controller]
		if p.Version == 2 {
			mount = p.Mounts[""]
		}
		data, err := os.ReadFile(filepath.Join(mount, group.Path, file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	type value struct{ controller, file, want string }
	values := []value{{"cpu", "cpu.shares", "512"}, {"cpu", "cpu.cfs_quota_us", "100000"}, {"memory", "memory.limit_in_bytes", "67108864"}, {"pids", "pids.max", "77"}}
	burst := value{"cpu", "cpu.shares", "512"}
	if p.Version == 2 {
		values = []value{{"", "cpu.weight", "20"}, {"", "cpu.max", "100000 100000"}, {"", "memory.max", "67108864"}, {"", "pids.max", "77"}}
		burst = value{"", "cpu.weight", "20"}
	}
	for _, v := range values {
		if v.controller != "" && p.Mounts[v.controller] == "" {
			// Debian 13's kernel has no memory controller on cgroup v1.
			t.Logf("this kernel has no %s controller on cgroup v1", v.controller)
			continue
		}
		if got := at(p.Pods[0], v.controller, v.file); got != v.want {
			t.Errorf("%s = %s, want %s", v.file, got, v.want)
		}
	}
	if got := at(p.Shared[1], burst.controller, burst.file); got != burst.want {
		t.Errorf("burstable %s = %s, want %s", burst.file, got, burst.want)
	}
}

// TestSharedWeightFollowsPods covers pods that are planned together: the facts for each plan do not
// include the other pods. The shared weight must nevertheless include all existing pods, and no
// removed ones.
func TestSharedWeightFollowsPods(t *testing.T) {
	facts, s := live(t)
	var plans []Plan
	weight := func() uint64 {
		file := "cpu.shares"
		if facts.Cgroup.Version == 2 {
			file = "cpu.weight"
		}
		data, err := os.ReadFile(filepath.Join(plans[0].hierarchies().cpuMount(), plans[0].Shared[1].Path, file))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	expect := func(milli int64) {
		t.Helper()
		var r Resources
		r.setWeight(facts.Cgroup.Version, milli)
		if got := weight(); got != max(r.CPUShares, r.CPUWeight) {
			t.Errorf("weight %d for %d milli-CPUs, want %+v", got, milli, r)
		}
	}
	for i := range 3 {
		pod := podOf(corev1.PodQOSBurstable)
		pod.UID = types.UID(fmt.Sprintf("%s-%d", uid, i))
		plans = append(plans, New(Input{Pod: pod, Facts: facts, Settings: s}))
	}
	for i, p := range plans {
		if err := Apply(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		expect(int64(i+1) * 500)
	}
	for i, p := range plans {
		if err := Remove(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		// The removal of the last pod removes the group.
		if i < 2 {
			expect(int64(2-i) * 500)
		}
	}
	if left := remains(t, plans[0]); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// appliedWithProcess creates a pod's groups, and starts a process in them that does not exit.
func appliedWithProcess(t *testing.T, facts host.Facts, s nodeconfig.Settings) (Plan, *exec.Cmd) {
	t.Helper()
	p := New(Input{Pod: podOf(corev1.PodQOSBestEffort), Facts: facts, Settings: s})
	if err := Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p, cmd
}

// TestRemoveKillsRemainingProcesses covers a process that has outlived its container, in a separate group below the
// pod's group. It must not prevent the removal of the pod's group.
func TestRemoveKillsRemainingProcesses(t *testing.T) {
	facts, s := live(t)
	p, cmd := appliedWithProcess(t, facts, s)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for _, dir := range p.hierarchies().dirs(p.Pods[0]) {
		inner := filepath.Join(dir, "container")
		if err := os.MkdirAll(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(inner, "/cpuset/") {
			// The lists of a new cpuset are empty, so no process can join it.
			continue
		}
		if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(fmt.Sprint(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(t.Context(), Leftovers(uid, facts.Cgroup, s)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v", err)
	}
	if left := remains(t, p); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRemoveAfterSystemdForgot covers a unit that systemd has unloaded, because it considers the
// unit unused or because of daemon-reload or systemctl. podrun must still remove the group, and
// kill a process that another program has added since then.
func TestRemoveAfterSystemdForgot(t *testing.T) {
	facts, s := live(t)
	if facts.Cgroup.Driver != host.DriverSystemd {
		t.Skip("this machine's cgroup driver is not systemd")
	}
	p := New(Input{Pod: podOf(corev1.PodQOSBurstable), Facts: facts, Settings: s})
	if err := Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	name, _ := unit(p.Pods[0].Path)
	if out, err := exec.Command("systemctl", "stop", name).CombinedOutput(); err != nil {
		t.Fatalf("systemctl stop %s: %v: %s", name, err, out)
	}
	if err := Remove(t.Context(), p); err != nil {
		t.Errorf("without unit and directory: %v", err)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	busy := filepath.Join(p.hierarchies().dirs(p.Pods[0])[0], "busy")
	if err := os.MkdirAll(busy, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(busy, "cgroup.procs"), []byte(fmt.Sprint(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), p); err != nil {
		t.Errorf("without a unit: %v", err)
	}
	<-ended
	if left := remains(t, p); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSharedGroupsOfSeveralPodruns covers podrun processes with different root directories. They
// share groups but not the node's lock, and must not lose the information which groups podrun
// created.
func TestSharedGroupsOfSeveralPodruns(t *testing.T) {
	facts, s := live(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			pod := podOf(corev1.PodQOSBurstable)
			pod.UID = types.UID(fmt.Sprintf("%s-%d", uid, i))
			p := New(Input{Pod: pod, Facts: facts, Settings: s})
			for range 20 {
				if err := errors.Join(Apply(t.Context(), p), Remove(t.Context(), p)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if left := remains(t, Leftovers(uid, facts.Cgroup, s)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRemoveSparesOthers checks that podrun does not remove groups that another program created or
// uses.
func TestRemoveSparesOthers(t *testing.T) {
	facts, s := live(t)
	p := Leftovers(uid, facts.Cgroup, s)
	p.Pods = nil
	var theirs []string
	for _, dir := range p.hierarchies().dirs(p.hierarchies().level(p.Root)) {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, dir)
	}
	defer func() {
		// systemd treated the directory as part of its slice.
		if err := p.hierarchies().stopUnit(p.hierarchies().level(p.Root)); err != nil {
			t.Error(err)
		}
		if err := removeDirs(theirs); err != nil {
			t.Error(err)
		}
	}()
	if err := Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	busy := filepath.Join(p.hierarchies().dirs(p.Shared[1])[0], "theirs")
	if err := os.Mkdir(busy, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if !exists(busy) || !exists(p.hierarchies().dirs(p.Shared[1])[0]) || exists(p.hierarchies().dirs(p.Shared[2])[0]) {
		t.Errorf("a group in use was removed, or an unused group was not removed")
	}
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	root, _ := unit(groupPath(p.Driver, p.Root))
	left := slices.DeleteFunc(remains(t, p), func(what string) bool { return what == root })
	// systemd removes directories in hierarchies that its slice does not use.
	if p.Version == 1 && p.Driver == host.DriverSystemd {
		theirs = slices.DeleteFunc(theirs, func(dir string) bool { return strings.HasPrefix(dir, p.Mounts["blkio"]+"/") && !exists(dir) })
	}
	if !slices.Equal(left, theirs) {
		t.Errorf("left: %v, want the groups that other programs created: %v", left, theirs)
	}
}

// TestApplyUndoes checks that Apply removes the groups that it created if it fails.
func TestApplyUndoes(t *testing.T) {
	facts, s := live(t)
	p := New(Input{Pod: podOf(corev1.PodQOSBurstable), Facts: facts, Settings: s})
	// This page size does not exist.
	p.Pods[0].Resources.HugePages = []HugePages{{Size: "3MB", Limit: 1}}
	if err := Apply(t.Context(), p); err == nil {
		t.Fatal("no error")
	}
	if left := remains(t, p); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// canceledAfter is a context that ends after the given number of calls of Err.
type canceledAfter struct {
	context.Context
	times int
}

func (c *canceledAfter) Err() error {
	if c.times--; c.times < 0 {
		return context.Canceled
	}
	return nil
}

// TestApplyUndoesWhenInterrupted checks that an Apply that is interrupted between two groups
// removes the groups that it created, including the cgroup root. With systemd, the slice of the
// root would otherwise remain, and systemd would create its directories again.
func TestApplyUndoesWhenInterrupted(t *testing.T) {
	facts, s := live(t)
	p := New(Input{Pod: podOf(corev1.PodQOSBurstable), Facts: facts, Settings: s})
	for times := range len(p.Shared) + len(p.Pods) {
		if err := Apply(&canceledAfter{t.Context(), times}, p); !errors.Is(err, context.Canceled) {
			t.Fatalf("%d: %v", times, err)
		}
		if err := Remove(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if left := remains(t, p); len(left) > 0 {
			t.Errorf("%d: left behind: %v", times, left)
		}
	}
}

func BenchmarkApplyRemove(b *testing.B) {
	facts, s := live(b)
	p := New(Input{Pod: podOf(corev1.PodQOSBurstable), Facts: facts, Settings: s})
	ctx := context.Background()
	for b.Loop() {
		if err := Apply(ctx, p); err != nil {
			b.Fatal(err)
		}
		if err := Remove(ctx, p); err != nil {
			b.Fatal(err)
		}
	}
}
