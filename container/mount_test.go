package container

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
)

func TestMounts(t *testing.T) {
	in := input(corev1.Container{
		TerminationMessagePath: "dev/log",
		VolumeMounts: []corev1.VolumeMount{
			{Name: "v", MountPath: "/a", MountPropagation: ptr(corev1.MountPropagationNone)},
			{Name: "v", MountPath: "b", ReadOnly: true, RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyIfPossible)},
			{Name: "cm", MountPath: "/cm", SubPath: "key"},
			{Name: "img", MountPath: "/img", SubPath: "dir"},
		},
	})
	in.Facts.SELinux = true
	in.Facts.Runtime.Handlers = map[string]host.RuntimeHandler{"": {RecursiveReadOnlyMounts: true}}
	image := &runtimeapi.ImageSpec{Image: "id"}
	got := mustConfig(t, in, Late{
		EtcHostsPath: "/r/etc-hosts", TerminationLogPath: "/r/log",
		Mounts: map[string]MountSource{
			"v": {HostPath: "/r/v", SELinuxRelabel: true}, "cm": {HostPath: "/r/cm", ReadOnly: true}, "img": {ReadOnly: true, Image: image},
		},
		SubpathPaths: map[int]string{2: "/r/sub/2"},
	}).Mounts
	want := []string{
		"/a /r/v relabel", "/b /r/v ro rro relabel", "/cm /r/sub/2 ro", "/img  ro image=id:dir",
		"/etc/hosts /r/etc-hosts relabel", "/dev/log /r/log relabel",
	}
	if diff := cmp.Diff(want, mountsOf(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func mountsOf(mounts []*runtimeapi.Mount) []string {
	var out []string
	for _, m := range mounts {
		s := m.ContainerPath + " " + m.HostPath
		if m.Readonly {
			s += " ro"
		}
		if m.RecursiveReadOnly {
			s += " rro"
		}
		if m.SelinuxRelabel {
			s += " relabel"
		}
		if m.Image != nil {
			s += " image=" + m.Image.Image + ":" + m.ImageSubPath
		}
		out = append(out, s)
	}
	return out
}

func TestVolumeAtEtcHostsWins(t *testing.T) {
	in := input(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}}})
	got := mustConfig(t, in, Late{EtcHostsPath: "/r/etc-hosts", Mounts: map[string]MountSource{"v": {HostPath: "/r/v"}}}).Mounts
	if diff := cmp.Diff([]string{"/etc/hosts /r/v"}, mountsOf(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMountProblems(t *testing.T) {
	always := ptr(corev1.RecursiveReadOnlyEnabled)
	for _, tt := range []struct {
		name  string
		mount corev1.VolumeMount
		want  string
	}{
		{"recursive but writable", corev1.VolumeMount{RecursiveReadOnly: always}, "it is not read-only"},
		{"recursive and propagated", corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: always, MountPropagation: ptr(corev1.MountPropagationHostToContainer)}, "not compatible with propagation"},
		// The runtime in these facts does not report the feature, like containerd 1.6, which would
		// mount non-recursively.
		{"recursive on an old runtime", corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: always}, "not supported by the runtime"},
		{"propagation", corev1.VolumeMount{MountPropagation: ptr(corev1.MountPropagationMode("Odd"))}, `invalid mountPropagation "Odd"`},
		{"absolute subPath", corev1.VolumeMount{SubPath: "/etc"}, "must not be an absolute path"},
		// CVE-2017-1002101: a subPath must not refer to a path outside its volume.
		{"subPath that backs out", corev1.VolumeMount{SubPath: "a/../../etc"}, "must not contain '..'"},
		{"expression that backs out", corev1.VolumeMount{SubPathExpr: "$(UP)/x"}, "must not contain '..'"},
		{"expression with nothing", corev1.VolumeMount{SubPathExpr: "$(EMPTY)/$(NOPE)/$(NOPE)"}, "missing value for EMPTY, NOPE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.mount.Name, tt.mount.MountPath = "v", "/v"
			in := input(corev1.Container{
				Env:          []corev1.EnvVar{{Name: "UP", Value: ".."}, {Name: "EMPTY"}},
				VolumeMounts: []corev1.VolumeMount{tt.mount},
			})
			_, problems := New(in)
			wantProblem(t, problems, "spec.containers[0].volumeMounts[0]", tt.want)
		})
	}
}

func TestSubpaths(t *testing.T) {
	p := mustPlan(t, input(corev1.Container{
		Env: []corev1.EnvVar{{Name: "IP", ValueFrom: field("status.podIP")}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "v", MountPath: "/a"}, {Name: "v", MountPath: "/b", SubPath: "x/y"}, {Name: "v", MountPath: "/c", SubPathExpr: "$(IP)/z"},
		},
	}))
	late := Late{PodIPs: []string{"10.0.0.1"}, Mounts: map[string]MountSource{"v": {HostPath: "/r/v"}}}
	got, err := p.Subpaths(late)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int]string{1: "x/y", 2: "10.0.0.1/z"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := p.Config(late); err == nil || !strings.Contains(err.Error(), "was not prepared") {
		t.Errorf("an unprepared subPath must not become a mount of the whole volume: %v", err)
	}
}

func TestVolumeThatIsNotThere(t *testing.T) {
	p := mustPlan(t, input(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}))
	if _, err := p.Config(Late{}); err == nil || !strings.Contains(err.Error(), `cannot find volume "v" to mount into container "app"`) {
		t.Errorf("got %v", err)
	}
}

func TestUserNamespaceMapsEveryMount(t *testing.T) {
	in := input(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}})
	ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
	in.Namespaces.UsernsOptions = &runtimeapi.UserNamespace{Uids: ids, Gids: ids}
	for _, m := range mustConfig(t, in, Late{EtcHostsPath: "/h", Mounts: map[string]MountSource{"v": {}}}).Mounts {
		if len(m.UidMappings) != 1 || len(m.GidMappings) != 1 {
			t.Errorf("%s is not mapped", m.ContainerPath)
		}
	}
}
