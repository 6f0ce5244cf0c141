package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestUIDDependsOnRootDir checks that the same file under two root directories defines two pods,
// and that a different spelling of a directory's path does not matter. `plan` must compute the same
// UIDs, even from recorded facts.
func TestUIDDependsOnRootDir(t *testing.T) {
	t.Parallel()
	a, b := rig.New(t), rig.New(t)
	text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	first, second := a.MustApply(text, run.OutcomeCreated), b.MustApply(text, run.OutcomeCreated)
	defer a.MustDelete()
	defer b.MustDelete()
	pod := rig.Load(t, text).Pods[0].Object
	if first.ID.UID == second.ID.UID || first.ID.UID == manifest.StaticUID(pod, "node-a", "") {
		t.Errorf("UIDs %s and %s", first.ID.UID, second.ID.UID)
	}
	facts, err := a.Engine().ReadFacts(t.Context(), rig.Load(t, text), true)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	var recorded host.Facts
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(a.Settings.RootDir, link); err != nil {
		t.Fatal(err)
	}
	linked := a.Engine()
	linked.Settings.RootDir = link
	for name, e := range map[string]*run.Node{"recorded facts": b.Engine(), "the same directory": linked} {
		facts, err := e.ReadFacts(t.Context(), rig.Load(t, text), true)
		if err != nil {
			t.Fatal(err)
		}
		if facts.Pods = nil; name == "recorded facts" {
			facts = recorded
		}
		targets, _, err := e.Prepare(t.Context(), rig.Load(t, text), node.PrepareOptions{AllowKubelet: true, Facts: &facts})
		if err != nil || targets[0].UID != first.ID.UID {
			t.Errorf("%s: planned as %s (%v), want %s", name, targets[0].UID, err, first.ID.UID)
		}
	}
}

// TestUpgradeRootDirInUID covers a pod of an older version of podrun, whose UIDs did not depend on
// the root directory. The pod must remain unchanged until it is replaced.
func TestUpgradeRootDirInUID(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	old := manifest.StaticUID(rig.Load(t, text).Pods[0].Object, "node-a", "")
	r.MustApply(strings.Replace(text, "name: web", "name: web, uid: "+old, 1), run.OutcomeCreated)
	r.Runtime.ForgetCalls()
	if again := r.MustApply(text, run.OutcomeUnchanged); again.ID.UID != old || len(again.What) > 0 {
		t.Errorf("pod %v (%q), want UID %s", again.ID, again.What, old)
	}
	pods := r.Known()
	options := run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}
	if results, err := run.StartPods(t.Context(), r.Engine(), pods, options); err != nil || results[0].Err != nil || results[0].Outcome != run.OutcomeUnchanged || results[0].ID.UID != old {
		t.Errorf("start: %+v, %v", results, err)
	}
	rig.WantChanges(t, r.Runtime)
	updated := r.MustApply(strings.Replace(text, "app:1", "app:2", 1), run.OutcomeUpdated)
	if updated.ID.UID != old {
		t.Errorf("update: pod %v", updated.ID)
	}
	if replaced := r.MustApply(strings.Replace(text, "app:1", "app:1, command: [sh]", 1), run.OutcomeReplaced); replaced.ID.UID == old {
		t.Errorf("replaced: pod %v", replaced.ID)
	}
}

const withUID = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u-1}\nspec: {containers: [{name: app, image: registry.example/app:1}]}\n"

// twoRoots returns two root directories on a host with one cgroup root, and creates a pod
// in the first one. They use the same runtime if shared is true.
func twoRoots(t *testing.T, shared bool, text string) (a, b *rig.Host) {
	a, b = rig.New(t), rig.New(t)
	b.Settings.CgroupRoot = a.Settings.CgroupRoot
	if shared {
		b.Runtime = a.Runtime
	}
	a.MustApply(text, run.OutcomeCreated)
	return a, b
}

// groupsOf lists the directories of a pod's cgroup.
func groupsOf(r *rig.Host, uid string) (found []string) {
	for _, root := range rig.CgroupsOf(r.Settings.CgroupRoot) {
		dirs, err := filepath.Glob(filepath.Join(root, "kubepods", "besteffort", "pod"+uid))
		if err != nil {
			r.T.Fatal(err)
		}
		found = append(found, dirs...)
	}
	return found
}

// deletesOne deletes the only pod of a root directory. The cgroup root must remain, because it
// contains pods of other root directories.
func deletesOne(r *rig.Host) {
	r.T.Helper()
	if results := r.Delete(run.DeleteOptions{}); len(results) != 1 || results[0].Err != nil {
		r.T.Errorf("delete: %+v", results)
	}
}

// TestUIDOfAnotherRootDir covers a UID in a manifest whose cgroup belongs to a pod of another root
// directory and runtime: podrun must refuse the pod before any side effect. Without the UID, the
// manifest defines a different pod, whose removal must not affect the first one.
func TestUIDOfAnotherRootDir(t *testing.T) {
	t.Parallel()
	a, b := twoRoots(t, false, withUID)
	groups := groupsOf(a, "u-1")
	if len(groups) == 0 {
		t.Fatal("the pod has no cgroup")
	}
	for _, text := range []string{withUID, strings.Replace(withUID, "name: web", "name: other", 1)} {
		result := b.Apply(text)
		rig.WantErr(t, result.Err, problem.Refused, "u-1")
		for _, want := range []string{a.Settings.RootDir, "remove metadata.uid", "--root-dir", "metadata.uid"} {
			if !strings.Contains(result.Err.Error(), want) {
				t.Errorf("no %q in %v", want, result.Err)
			}
		}
		rig.WantChanges(t, b.Runtime)
		d, err := run.Doctor(t.Context(), b.Engine(), rig.Load(t, text), run.DoctorOptions{AllowKubelet: true})
		if err != nil || len(d.Pods) != 1 || !slices.ContainsFunc(d.Pods[0].Problems, func(p problem.Problem) bool { return p.Field == "metadata.uid" }) {
			t.Errorf("doctor: %+v, %v", d.Pods, err)
		}
		if _, err := os.Stat(string(b.Layout().Pod("u-1"))); !os.IsNotExist(err) {
			t.Errorf("its directory: %v", err)
		}
	}
	b.MustApply(strings.Replace(withUID, ", uid: u-1", "", 1), run.OutcomeCreated)
	deletesOne(b)
	if found, err := run.GC(t.Context(), b.Engine(), run.GCOptions{}); err != nil || len(found) > 0 {
		t.Errorf("gc: %+v, %v", found, err)
	}
	if now := groupsOf(a, "u-1"); !slices.Equal(now, groups) {
		t.Errorf("its cgroups are %v, were %v", now, groups)
	}
	a.MustDelete()
	b.MustApply(withUID, run.OutcomeCreated)
	b.MustDelete()
}

// TestSharedUIDOfOlderPodrun covers two root directories that have pods with the same UID,
// which older versions of podrun permitted. The deletion of one pod must not remove the cgroup,
// because the other pod uses it.
func TestSharedUIDOfOlderPodrun(t *testing.T) {
	t.Parallel()
	a, b := rig.New(t), rig.New(t)
	b.MustApply(withUID, run.OutcomeCreated)
	own := b.Settings.CgroupRoot
	t.Cleanup(func() { rig.RemoveCgroupRoot(t, own) })
	b.Settings.CgroupRoot = a.Settings.CgroupRoot
	a.MustApply(withUID, run.OutcomeCreated)
	groups := groupsOf(a, "u-1")
	b.MustApply(withUID, run.OutcomeUnchanged)
	deletesOne(b)
	if now := groupsOf(a, "u-1"); len(now) == 0 || !slices.Equal(now, groups) {
		t.Errorf("its cgroups are %v, were %v", now, groups)
	}
	a.MustDelete()
}

// TestRootDirsOfOneRuntime covers a pod of another root directory in the same runtime. podrun must
// refuse the same manifest and the same UID.
func TestRootDirsOfOneRuntime(t *testing.T) {
	t.Parallel()
	plain := strings.Replace(withUID, ", uid: u-1", "", 1)
	for _, tc := range []struct{ name, first, second, want string }{
		{"the same file", plain, plain, "pod default/web exists in another podrun root directory"},
		{"the same file with a UID", withUID, withUID, "pod default/web exists in another podrun root directory"},
		{"the same UID", withUID, strings.Replace(withUID, "name: web", "name: other", 1), `"u-1" is the UID of pod default/web`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := twoRoots(t, true, tc.first)
			a.Runtime.ForgetCalls()
			rig.WantErr(t, b.Apply(tc.second).Err, problem.Refused, tc.want)
			for _, result := range b.Delete(run.DeleteOptions{}) {
				t.Errorf("delete found %v", result.ID)
			}
			rig.WantChanges(t, a.Runtime)
			a.MustApply(tc.first, run.OutcomeUnchanged)
			a.MustDelete()
		})
	}
}

// TestGCOfRootDirs checks that gc keeps the cgroup of another root directory. It must remove
// the cgroup only if that directory no longer exists and the cgroup has no processes.
func TestGCOfRootDirs(t *testing.T) {
	t.Parallel()
	a, b := twoRoots(t, false, withUID)
	long := time.Now().Add(-time.Hour)
	for _, dir := range groupsOf(a, "u-1") {
		if err := os.Chtimes(dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := run.GC(t.Context(), b.Engine(), run.GCOptions{}); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if len(groupsOf(a, "u-1")) == 0 {
		t.Fatal("the cgroup of the other pod was removed")
	}
	if err := os.RemoveAll(a.Settings.RootDir); err != nil {
		t.Fatal(err)
	}
	found, err := run.GC(t.Context(), b.Engine(), run.GCOptions{})
	if err != nil || len(found) != 1 || found[0].Kind != "cgroup" || !found[0].Removed || !strings.Contains(found[0].Why, a.Settings.RootDir) {
		t.Errorf("leftovers of a removed root directory: %+v, %v", found, err)
	}
	if left := groupsOf(a, "u-1"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
