package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/internal/treetest"
)

const oneEmptyDir = `volumes: [{name: disk, emptyDir: {}}]`

func mustApply(t *testing.T, spec string) Plan {
	t.Helper()
	plan := livePod(t, spec)
	if err := Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

func wantIntact(t *testing.T, path string) {
	t.Helper()
	if data, err := os.ReadFile(path); err != nil || string(data) != "precious" {
		t.Errorf("%s: %q, %v; it must be intact", path, data, err)
	}
}

func wantGone(t *testing.T, plan Plan) {
	t.Helper()
	if _, err := os.Lstat(plan.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s still exists: %v", plan.Dir, err)
	}
	if mounts := mountsBelow(t, plan.Dir); len(mounts) > 0 {
		t.Errorf("left mounted: %v", mounts)
	}
}

func remove1(plan Plan) error { return Remove(context.Background(), plan.Layout, plan.ID.UID) }

func TestRemoveIsIdempotent(t *testing.T) {
	plan := mustApply(t, `volumes: [{name: disk, emptyDir: {}}, {name: "mem", emptyDir: {medium: Memory}}]`)
	treetest.Write(t, plan.Volumes[0].HostPath+"/a/b/c")
	treetest.Write(t, plan.Volumes[1].HostPath+"/a/b/c")
	for range 2 {
		if err := remove1(plan); err != nil {
			t.Fatal(err)
		}
		wantGone(t, plan)
	}
	if err := Remove(t.Context(), identity.Layout{RootDir: t.TempDir() + "/none"}, "u"); err != nil {
		t.Errorf("no root directory: %v", err)
	}
}

// TestRemoveDataKeepsWhatTheRemovalNeeds checks that podrun still finds the pod and its state after
// RemoveData, because the removal may be interrupted.
func TestRemoveDataKeepsWhatTheRemovalNeeds(t *testing.T) {
	plan := mustApply(t, `volumes: [{name: disk, emptyDir: {}}, {name: "mem", emptyDir: {medium: Memory}}]`)
	uid := plan.ID.UID
	treetest.Write(t, plan.Volumes[0].HostPath+"/a/b/c")
	treetest.Write(t, plan.Volumes[1].HostPath+"/a/b/c")
	treetest.Write(t, plan.Layout.Pod(uid).Container("app")+"/0123abcd")
	kept := []string{plan.Layout.Pod(uid).Checkpoint(), plan.Layout.Pod(uid).State(), plan.Layout.Pod(uid).Journal(), plan.Layout.Pod(uid).UserNS()}
	for _, path := range kept {
		treetest.Write(t, path)
	}
	for range 2 {
		if err := RemoveData(t.Context(), plan.Layout, uid); err != nil {
			t.Fatal(err)
		}
		for _, path := range kept {
			wantIntact(t, path)
		}
		for _, path := range []string{plan.Layout.Pod(uid).Volumes(), plan.Layout.Pod(uid).Containers()} {
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s still exists: %v", path, err)
			}
		}
		if mounts := mountsBelow(t, plan.Dir); len(mounts) > 0 {
			t.Errorf("left mounted: %v", mounts)
		}
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
	if err := RemoveData(t.Context(), plan.Layout, uid); err != nil {
		t.Errorf("without the pod's directory: %v", err)
	}
}

func TestEmpty(t *testing.T) {
	plan := mustApply(t, `volumes: [{name: disk, emptyDir: {}}, {name: "mem", emptyDir: {medium: Memory}}]`)
	treetest.Write(t, plan.Volumes[0].HostPath+"/a/b/c")
	kept := []string{plan.Layout.Pod(plan.ID.UID).Checkpoint(), plan.Layout.Pod(plan.ID.UID).UserNS(), plan.Layout.Pod(plan.ID.UID).Devices()}
	for _, path := range append(kept, plan.Layout.Pod(plan.ID.UID).StoppedMark()) {
		treetest.Write(t, path)
	}
	for range 2 {
		if err := RemoveForRecreate(t.Context(), plan.Layout, plan.ID.UID); err != nil {
			t.Fatal(err)
		}
		for _, path := range kept {
			wantIntact(t, path)
		}
		if entries, err := os.ReadDir(plan.Dir); err != nil || len(entries) != len(kept) {
			t.Errorf("it contains %v, %v", entries, err)
		}
		if mounts := mountsBelow(t, plan.Dir); len(mounts) > 0 {
			t.Errorf("left mounted: %v", mounts)
		}
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
}

func TestRemoveRefusesUnsafeUIDs(t *testing.T) {
	root := t.TempDir()
	treetest.Write(t, root+"/pods/x")
	treetest.Write(t, root+"/precious")
	for _, uid := range []string{"", ".", "..", "../..", "a/b"} {
		if err := Remove(t.Context(), identity.Layout{RootDir: root}, uid); err == nil {
			t.Errorf("UID %q was accepted", uid)
		}
	}
	wantIntact(t, root+"/precious")
}

// TestRemoveFollowsNoSymlink checks that podrun does not follow symlinks that a container has
// placed in its volume.
func TestRemoveFollowsNoSymlink(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	host := t.TempDir()
	treetest.Write(t, host+"/keep/file")
	volume := plan.Volumes[0].HostPath
	for name, target := range map[string]string{
		"dir": host, "file": host + "/keep/file", "up": "../../../../../..", "loop": "loop", "dangling": "/nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(host, filepath.Join(plan.Dir, "volumes", "kubernetes.io~planted")); err != nil {
		t.Fatal(err)
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
	wantIntact(t, host+"/keep/file")
}

func TestRemoveRefusesAPodDirThatIsASymlink(t *testing.T) {
	root, host := t.TempDir(), t.TempDir()
	treetest.Write(t, host+"/file")
	os.Mkdir(root+"/pods", 0o750)
	os.Symlink(host, root+"/pods/u")
	if err := Remove(t.Context(), identity.Layout{RootDir: root}, "u"); err == nil {
		t.Error("no error")
	}
	wantIntact(t, host+"/file")
}

// TestRemoveBehindASymlinkedRoot checks that the path of the root directory may contain a symlink.
func TestRemoveBehindASymlinkedRoot(t *testing.T) {
	plan := mustApply(t, `volumes: [{name: mem, emptyDir: {medium: Memory}}]`)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(plan.Layout.RootDir, link); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), identity.Layout{RootDir: link}, plan.ID.UID); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
}

// TestRemoveUnmountsAndDeletesNothingMounted covers kubernetes/kubernetes#72257: if a mount
// remained, a deletion through it destroyed the mounted data.
func TestRemoveUnmountsAndDeletesNothingMounted(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	host := t.TempDir()
	treetest.Write(t, host+"/sub/file")
	volume := plan.Volumes[0].HostPath
	for _, dir := range []string{"bound", "twice", "odd name\\\n"} {
		if err := os.Mkdir(filepath.Join(volume, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		treetest.Bind(t, host, filepath.Join(volume, dir))
	}
	treetest.Bind(t, host+"/sub", filepath.Join(volume, "twice"))
	treetest.Bind(t, host, filepath.Join(volume, "bound", "sub"))
	treetest.Write(t, volume+"/onfile")
	treetest.Bind(t, host+"/sub/file", volume+"/onfile")
	// In both cases, one mount hides others. In the second case, the hiding mount was created before the mounts that
	// it hides.
	treetest.Bind(t, host, volume)
	older := t.TempDir()
	treetest.Bind(t, older, older)
	if err := unix.Mount("", older, "", unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	inner := older + "/inner"
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	treetest.Bind(t, older, inner)
	treetest.Bind(t, host, volume+"/sub")
	if err := unix.Mount(inner, volume, "", unix.MS_MOVE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(older, 0); err != nil {
		t.Fatal(err)
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
	wantIntact(t, host+"/sub/file")
}

func TestRemoveDeletesNothingWhileAMountIsBusy(t *testing.T) {
	plan := mustApply(t, `volumes: [{name: disk, emptyDir: {}}, {name: mem, emptyDir: {medium: Memory}}]`)
	treetest.Write(t, plan.Volumes[0].HostPath+"/file")
	treetest.Write(t, plan.Volumes[1].HostPath+"/file")
	user, err := os.Open(plan.Volumes[1].HostPath + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	ctx, cancel := context.WithCancel(t.Context())
	// Remove must not wait until the file is closed.
	cancel()
	err = Remove(ctx, plan.Layout, plan.ID.UID)
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), plan.Volumes[1].HostPath) {
		t.Fatalf("error %v; want EBUSY and the mount's path", err)
	}
	for _, v := range plan.Volumes {
		wantIntact(t, v.HostPath+"/file")
	}
	user.Close()
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
}

// TestDeletionStopsAtAMount covers a mount that appears after podrun has listed the mounts.
func TestDeletionStopsAtAMount(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	host := t.TempDir()
	treetest.Write(t, host+"/file")
	if err := WriteCheckpoint(plan.Layout, plan.ID.UID, []byte("pod")); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(plan.Volumes[0].HostPath, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	treetest.Bind(t, host, inner)
	pods, err := unix.Open(plan.Layout.PodsDir(), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pods)
	if err := removePodDir(t.Context(), pods, plan.ID.UID); !errors.Is(err, safepath.ErrOtherMount) {
		t.Errorf("error %v, want %v", err, safepath.ErrOtherMount)
	}
	if _, err := os.Stat(plan.Layout.Pod(plan.ID.UID).Checkpoint()); err != nil {
		t.Errorf("the checkpoint was removed before the other files: %v", err)
	}
	wantIntact(t, host+"/file")
}

func TestHostPathContentStays(t *testing.T) {
	host := t.TempDir()
	plan := mustApply(t, `volumes: [{name: h, hostPath: {path: `+host+`/made, type: DirectoryOrCreate}}]`)
	treetest.Write(t, host+"/made/file")
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantIntact(t, host+"/made/file")
}

// TestRemoveOfAVeryDeepTree covers a container that has nested directories deeper than the limits
// on paths and descriptors.
func TestRemoveOfAVeryDeepTree(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	treetest.MakeDeep(t, plan.Volumes[0].HostPath, 5000)
	treetest.LimitDescriptors(t, 256)
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
}

func TestRemoveEndsWithTheContext(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Remove(ctx, plan.Layout, plan.ID.UID); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
}

// TestRemoveContents checks that only the content of an evicted pod's emptyDirs is removed, and
// that all other files of the pod remain.
func TestRemoveContents(t *testing.T) {
	host := t.TempDir()
	treetest.Write(t, host+"/keep/file")
	plan := mustApply(t, `volumes: [{name: disk, emptyDir: {}}, {name: "mem", emptyDir: {medium: Memory}}, {name: host, hostPath: {path: `+host+`}}]`)
	disk := EmptyDirPath(plan.Layout, plan.ID.UID, "disk")
	treetest.Write(t, disk+"/a/b/c")
	treetest.Write(t, plan.Dir+"/containers/app/log")
	if err := os.Symlink(host, filepath.Join(disk, "link")); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(plan.Dir, "volume-subpaths")
	if err := os.Mkdir(inside, 0o750); err != nil {
		t.Fatal(err)
	}
	treetest.Bind(t, host, inside)
	for range 2 {
		if err := RemoveContents(t.Context(), plan.Layout, plan.ID.UID); err != nil {
			t.Fatal(err)
		}
		if mounts := mountsBelow(t, plan.Dir); len(mounts) > 0 {
			t.Errorf("left mounted: %v", mounts)
		}
		if _, err := os.Lstat(disk); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists: %v", disk, err)
		}
	}
	wantIntact(t, host+"/keep/file")
	wantIntact(t, plan.Dir+"/containers/app/log")
	if err := RemoveContents(t.Context(), plan.Layout, "../x"); err == nil {
		t.Error("an unsafe UID was accepted")
	}
	if err := RemoveContents(t.Context(), identity.Layout{RootDir: t.TempDir()}, "u"); err != nil {
		t.Errorf("no root directory: %v", err)
	}
}
