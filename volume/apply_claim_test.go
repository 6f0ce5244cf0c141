package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mountutils "k8s.io/mount-utils"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/test/ring"
)

const oneClaim = `
securityContext: {fsGroup: 4321, fsGroupChangePolicy: OnRootMismatch}
containers: [{name: app, volumeMounts: [{name: data, mountPath: /data}]}]
volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// claimed returns the plan of the volumes of a pod whose claim is bound to a volume.
func claimed(t *testing.T, spec string, source corev1.PersistentVolumeSource, change ...func(*corev1.PersistentVolume)) Plan {
	t.Helper()
	in := input(podOf(t, spec))
	in.Layout = identity.Layout{RootDir: t.TempDir()}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	for _, c := range change {
		c(pv)
	}
	in.Claims = map[string]*corev1.PersistentVolumeClaim{"data": {Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}}
	in.PersistentVolumes = map[string]*corev1.PersistentVolume{"pv": pv}
	plan, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return plan
}

func TestLocalVolume(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	treetest.Write(t, dir+"/file")
	plan := claimed(t, oneClaim, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
		func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noexec"} })
	v := plan.Volumes[0]
	if want := plan.Dir + "/volumes/kubernetes.io~local-volume/pv"; v.HostPath != want {
		t.Errorf("at %s, want %s", v.HostPath, want)
	}
	for range 2 {
		if err := Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	}
	wantIntact(t, v.HostPath+"/file")
	if gid, mode := groupAndMode(t, dir); gid != 4321 || mode&os.ModeSetgid == 0 {
		t.Errorf("group %d, mode %v; want the pod's", gid, mode)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(v.HostPath, &fs); err != nil || fs.Flags&unix.ST_NOEXEC == 0 {
		t.Errorf("mount flags %#x, %v; want noexec", fs.Flags, err)
	}
	if n := len(mountsBelow(t, plan.Dir)); n != 1 {
		t.Errorf("%d mounts, want 1", n)
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
	wantIntact(t, dir+"/file")
}

func TestReadOnlyLocalVolume(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	plan := claimed(t, strings.Replace(oneClaim, "claimName: data", "claimName: data, readOnly: true", 1), corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}})
	if !plan.Volumes[0].ReadOnly {
		t.Error("the volume is not read-only")
	}
	if err := Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	defer remove1(plan)
	if err := os.WriteFile(plan.Volumes[0].HostPath+"/x", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing: %v, want a read-only file system", err)
	}
	if gid, _ := groupAndMode(t, dir); gid != 0 {
		t.Errorf("group %d: a read-only volume must keep its owner", gid)
	}
}

func TestLocalVolumeThatIsNotThere(t *testing.T) {
	plan := claimed(t, oneClaim, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/none/at/all"}})
	problems := Check(podOf(t, oneClaim), plan, map[string]Path{"/none/at/all": {Missing: true}}, "")
	if len(problems) != 1 || problems[0].Field != "spec.volumes[0].persistentVolumeClaim" || problems[0].Message != `path "/none/at/all" does not exist` {
		t.Error(problems)
	}
}

// TestNFS checks only the arguments of the mount, because this kernel may not support NFS.
func TestNFS(t *testing.T) {
	ring.RequireRoot(t)
	for _, test := range []struct {
		source  corev1.NFSVolumeSource
		options []string
		want    mountutils.MountPoint
	}{
		{corev1.NFSVolumeSource{Server: "nfs.example", Path: "/export"}, nil, mountutils.MountPoint{Device: "nfs.example:/export"}},
		{corev1.NFSVolumeSource{Server: "2001:db8::1", Path: "/export", ReadOnly: true}, []string{"nfsvers=4.1"},
			mountutils.MountPoint{Device: "[2001:db8::1]:/export", Opts: []string{"ro", "nfsvers=4.1"}}},
	} {
		plan := claimed(t, oneClaim, corev1.PersistentVolumeSource{NFS: &test.source}, func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = test.options })
		var mounted []mountutils.MountPoint
		mount := func(_ context.Context, source, target, fstype string, options []string) error {
			mounted = append(mounted, mountutils.MountPoint{Device: source, Path: target, Type: fstype, Opts: options})
			return nil
		}
		if err := makePodDirs(plan); err != nil {
			t.Fatal(err)
		}
		if err := makeNFS(t.Context(), plan.Volumes[0], plan.Volumes[0].Setup.NFS, mount); err != nil {
			t.Fatal(err)
		}
		test.want.Type, test.want.Path = "nfs", plan.Dir+"/volumes/kubernetes.io~nfs/pv"
		if diff := cmp.Diff([]mountutils.MountPoint{test.want}, mounted); diff != "" {
			t.Error(diff)
		}
		if plan.Volumes[0].FSGroup != nil {
			t.Error("the owners in an export must not change")
		}
		if err := remove1(plan); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBlockVolume(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	spec := `
containers: [{name: app, volumeDevices: [{name: data, devicePath: /dev/data}]}]
volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`
	plan := claimed(t, spec, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/null"}}, func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = &block })
	if got := plan.Sources()["data"].Device; got != "/dev/null" {
		t.Errorf("device %q", got)
	}
	problems := Check(podOf(t, spec), plan, map[string]Path{"/dev/null": {Mode: fs.ModeDevice | fs.ModeCharDevice}}, "")
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "/dev/null is not a block device") {
		t.Error(problems)
	}
}

func TestReadEnvValueStaysInside(t *testing.T) {
	dir, host := t.TempDir(), t.TempDir()
	write := func(at, text string) {
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(dir+"/env", "A='1'\n")
	write(host+"/env", "A='of the host'\n")
	os.Symlink(host+"/env", dir+"/out")
	os.Symlink("/env", dir+"/rooted")
	os.Symlink("../../../../../../../.."+host+"/env", dir+"/up")
	unix.Mkfifo(dir+"/pipe", 0o600)
	write(dir+"/large", strings.Repeat("# x\n", maxEnvFile/4+1))
	for file, want := range map[string]string{"env": "1", "rooted": "1", "out": "", "up": "", "none": ""} {
		if got, err := ReadEnvValue(t.Context(), dir, file, "A"); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
	for _, file := range []string{"pipe", "large", "."} {
		if got, err := ReadEnvValue(t.Context(), dir, file, "A"); err == nil {
			t.Errorf("%s: %q, want an error", file, got)
		}
	}
}

func TestNotShared(t *testing.T) {
	for _, test := range []struct {
		path Path
		mode corev1.MountPropagationMode
		want string
	}{
		{Path{MountPoint: "/shared", Shared: true}, "Bidirectional", ""},
		{Path{MountPoint: "/shared", Shared: true}, "HostToContainer", ""},
		{Path{MountPoint: "/slave", Slave: true}, "HostToContainer", ""},
		{Path{MountPoint: "/slave", Slave: true}, "Bidirectional", `path "/p" is mounted on "/slave" but it is not a shared mount`},
		{Path{MountPoint: "/private"}, "HostToContainer", `path "/p" is mounted on "/private" but it is not a shared or slave mount`},
		{Path{MountPoint: "/"}, "Bidirectional", `path "/p" is mounted on "/" but it is not a shared mount`},
		// The facts contain no mount of the path, because they come from a file without mounts.
		{Path{}, "Bidirectional", ""},
	} {
		if got := test.path.notShared("/p", test.mode); got != test.want {
			t.Errorf("%s %+v: %q, want %q", test.mode, test.path, got, test.want)
		}
	}
}
