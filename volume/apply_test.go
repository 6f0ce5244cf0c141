package volume

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/test/ring"
)

// livePod returns the plan of a pod's volumes below a temporary root directory, and removes the
// volumes when the test ends.
func livePod(t *testing.T, spec string) Plan {
	t.Helper()
	ring.RequireRoot(t)
	root := t.TempDir()
	in := input(podOf(t, spec))
	in.Layout = identity.Layout{RootDir: root}
	plan, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	t.Cleanup(func() {
		if mounts := mountsBelow(t, root); len(mounts) > 0 {
			t.Errorf("left mounted: %v", mounts)
			for i := len(mounts) - 1; i >= 0; i-- {
				unix.Unmount(mounts[i].Mountpoint, unix.MNT_DETACH)
			}
		}
	})
	t.Cleanup(func() {
		if err := Remove(context.Background(), plan.Layout, plan.ID.UID); err != nil {
			t.Errorf("remove at the end: %v", err)
		}
	})
	return plan
}

// mountsBelow returns the mounts at dir and below.
func mountsBelow(t *testing.T, dir string) []*mountinfo.Info {
	t.Helper()
	mounts, err := safepath.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	var out []*mountinfo.Info
	for _, m := range mounts {
		if m.Mountpoint == dir || strings.HasPrefix(m.Mountpoint, dir+"/") {
			out = append(out, m)
		}
	}
	return out
}

// tree lists a directory in the format of kubelet-golden: the mode, owner and path of each
// file.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		st := info.Sys().(*unixStat)
		out = append(out, fmt.Sprintf("%s %d:%d %s", info.Mode(), st.Uid, st.Gid, rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestApplyMakesTheKubeletsFiles checks that the files equal those of kubelet-golden 19-emptydir,
// except for its subPaths.
func TestApplyMakesTheKubeletsFiles(t *testing.T) {
	plan := livePod(t, `
securityContext: {fsGroup: 1234}
volumes:
- {name: disk, emptyDir: {}}
- {name: memlimited, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
`)
	// The modes must not depend on the umask.
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	if err := Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if err := MakeContainerDir(plan.Layout, plan.ID.UID, "app"); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeTerminationLog(plan.Layout, plan.ID.UID, "app", "00c0ffee"); err != nil {
		t.Fatal(err)
	}
	if err := WriteHosts(t.Context(), plan.Layout, plan.ID.UID, []byte("127.0.0.1\tlocalhost\n")); err != nil {
		t.Fatal(err)
	}
	if err := WriteCheckpoint(plan.Layout, plan.ID.UID, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"drwxr-x--- 0:0 .",
		"drwxr-x--- 0:0 containers",
		"drwxr-x--- 0:0 containers/app",
		"-rw-rw-rw- 0:0 containers/app/00c0ffee",
		"-rw-r--r-- 0:0 etc-hosts",
		"drwxr-x--- 0:0 plugins",
		"drwxr-x--- 0:0 plugins/kubernetes.io~empty-dir",
		"drwxr-x--- 0:0 plugins/kubernetes.io~empty-dir/disk",
		"-rw-r--r-- 0:0 plugins/kubernetes.io~empty-dir/disk/ready",
		"drwxr-x--- 0:0 plugins/kubernetes.io~empty-dir/memlimited",
		"-rw-r--r-- 0:0 plugins/kubernetes.io~empty-dir/memlimited/ready",
		"-rw------- 0:0 pod.yaml",
		"drwxr-x--- 0:0 volumes",
		"drwxr-xr-x 0:0 volumes/kubernetes.io~empty-dir",
		"dgrwxrwxrwx 0:1234 volumes/kubernetes.io~empty-dir/disk",
		"dgtrwxrwxrwx 0:1234 volumes/kubernetes.io~empty-dir/memlimited",
	}
	if diff := cmp.Diff(want, tree(t, plan.Dir)); diff != "" {
		t.Error(diff)
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(info)) {
		if strings.Contains(line, plan.Volumes[1].HostPath+" ") {
			found = true
			if !strings.Contains(line, "size=16384k") {
				t.Errorf("tmpfs without the size of 16 MiB: %s", line)
			}
		}
	}
	if !found {
		t.Error("no tmpfs mounted")
	}
}

func TestApplyAgainLeavesContentAlone(t *testing.T) {
	plan := livePod(t, `
securityContext: {fsGroup: 1234}
volumes: [{name: disk, emptyDir: {}}, {name: mem, emptyDir: {medium: Memory}}]
`)
	for range 2 {
		if err := Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		for _, v := range plan.Volumes {
			f, err := os.OpenFile(v.HostPath+"/data", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString("x")
			f.Close()
		}
	}
	for _, v := range plan.Volumes {
		data, err := os.ReadFile(v.HostPath + "/data")
		if err != nil || string(data) != "xx" {
			t.Errorf("%s: content %q, %v after applying twice; want xx", v.Name, data, err)
		}
		if info, _ := os.Stat(v.HostPath + "/data"); info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode of a container's file changed to %v", v.Name, info.Mode())
		}
	}
	if mounts := mountsBelow(t, plan.Dir); len(mounts) != 1 {
		t.Errorf("%d mounts, want 1: %v", len(mounts), mounts)
	}
}

// TestApplyMountsAgainAfterReboot covers a reboot: the tmpfs no longer exists, but the ready file
// does.
func TestApplyMountsAgainAfterReboot(t *testing.T) {
	plan := livePod(t, `volumes: [{name: mem, emptyDir: {medium: Memory}}]`)
	if err := Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(plan.Volumes[0].HostPath, 0); err != nil {
		t.Fatal(err)
	}
	if err := Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if mounts := mountsBelow(t, plan.Dir); len(mounts) != 1 {
		t.Errorf("mounts %v, want one", mounts)
	}
}

// TestApplyMountsOnce covers a podrun process that was killed after the mount, but before it
// created the ready file.
func TestApplyMountsOnce(t *testing.T) {
	plan := livePod(t, `volumes: [{name: mem, emptyDir: {medium: Memory}}]`)
	for range 2 {
		if err := Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(readyFile(plan.Volumes[0].Setup.EmptyDir)); err != nil {
			t.Fatal(err)
		}
	}
	if mounts := mountsBelow(t, plan.Dir); len(mounts) != 1 {
		t.Errorf("mounts %v, want one", mounts)
	}
}

func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	os.Mkdir(at("dir"), 0o700)
	os.WriteFile(at("file"), []byte("x"), 0o600)
	os.Symlink("dir", at("link"))
	listener, err := net.Listen("unix", at("sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const failed = "hostPath type check failed: "
	for _, test := range []struct {
		kind corev1.HostPathType
		path string
		// the error after the text above; "" means no error
		want string
	}{
		{"", at("missing"), ""},
		{"Directory", at("dir"), ""},
		{"Directory", at("link"), ""},
		{"Directory", at("file"), at("file") + " is not a directory"},
		{"Directory", at("missing"), at("missing") + " is not a directory"},
		{"DirectoryOrCreate", at("made/below"), ""},
		{"DirectoryOrCreate", at("file"), at("file") + " is not a directory"},
		{"File", at("file"), ""},
		{"File", at("dir"), at("dir") + " is not a file"},
		{"FileOrCreate", at("made.txt"), ""},
		{"FileOrCreate", at("sock"), at("sock") + " is not a file"},
		{"Socket", at("sock"), ""},
		{"Socket", at("file"), at("file") + " is not a socket file"},
		{"CharDevice", "/dev/null", ""},
		{"CharDevice", at("file"), at("file") + " is not a character device"},
		{"BlockDevice", "/dev/null", "/dev/null is not a block device"},
	} {
		err := makeVolume(t.Context(), Volume{HostPath: test.path, Setup: checkHostPath(test.kind)})
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), failed)
		}
		if got != test.want {
			t.Errorf("%s %s: %q, want %q", test.kind, test.path, got, test.want)
		}
	}
	if _, err := os.Lstat(at("missing")); err == nil {
		t.Error("a hostPath without a type was created")
	}
	for name, want := range map[string]os.FileMode{"made/below": os.ModeDir | 0o755, "made.txt": 0o644} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want mode %v", name, info, err, want)
		}
	}
}

// TestApplyFileInDirOfAnotherVolume covers a hostPath of type FileOrCreate, which does not create
// the parent directory. For such a file, Kubernetes' documentation suggests this pair of volumes.
// The kubelet retries the file until its directory exists.
func TestApplyFileInDirOfAnotherVolume(t *testing.T) {
	dir := t.TempDir()
	plan := livePod(t, `volumes: [{name: file, hostPath: {path: `+dir+`/aaa/1.txt, type: FileOrCreate}},
{name: dir, hostPath: {path: `+dir+`/aaa, type: DirectoryOrCreate}}]`)
	for range 20 {
		if err := Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir + "/aaa"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestApplyFailsAsTheKubeletSays covers kubelet-golden 21-hostpath-wrong-type.
func TestApplyFailsAsTheKubeletSays(t *testing.T) {
	plan := livePod(t, `volumes: [{name: sock, hostPath: {path: /etc/passwd, type: Socket}}, {name: d, hostPath: {path: /etc/passwd, type: Directory}}]`)
	err := Apply(t.Context(), plan)
	var failed *problem.Error
	var mount *MountError
	if !errors.As(err, &failed) || !errors.As(err, &mount) || failed.Kind != problem.Refused {
		t.Fatalf("error %#v", err)
	}
	if want := `MountVolume.SetUp failed for volume "sock" : hostPath type check failed: /etc/passwd is not a socket file`; mount.Event() != want {
		t.Errorf("event %q, want %q", mount.Event(), want)
	}
	if !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("the second volume is not reported: %v", err)
	}
}

// TestApplyMountsHugePages covers kubelet-golden 25-hugepages. It requires no free pages, because a
// hugetlbfs can be mounted without them.
func TestApplyMountsHugePages(t *testing.T) {
	plan := livePod(t, `
containers: [{name: app, resources: {limits: {hugepages-2Mi: 4Mi}}}]
volumes: [{name: huge, emptyDir: {medium: HugePages}}]
`)
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "hugetlbfs") {
		t.Skip("this kernel has no hugetlbfs")
	}
	for range 2 {
		if err := Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	}
	mounts := mountsBelow(t, plan.Dir)
	if len(mounts) != 1 || mounts[0].FSType != "hugetlbfs" {
		t.Fatalf("mounts %+v", mounts)
	}
	if info, err := os.Stat(plan.Volumes[0].HostPath); err != nil || info.Mode() != os.ModeDir|0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
