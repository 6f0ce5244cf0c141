package container

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
)

func TestSeccomp(t *testing.T) {
	local := func(name *string) *corev1.SeccompProfile {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: name}
	}
	def := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	for _, tt := range []struct {
		name      string
		pod, own  *corev1.SeccompProfile
		byDefault bool
		want      string // type and file of the profile
		problem   string
	}{
		{name: "none", want: "Unconfined "},
		{name: "seccompDefault", byDefault: true, want: "RuntimeDefault "},
		{name: "the pod's", pod: def, want: "RuntimeDefault "},
		{name: "its own", pod: def, own: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}, byDefault: true, want: "Unconfined "},
		{name: "local", own: local(ptr("a/b.json")), want: "Localhost /var/lib/podrun/seccomp/a/b.json"},
		// CVE-2023-2431: the container would have run unconfined.
		{name: "local without a name", own: local(ptr("")), problem: "localhostProfile must be set"},
		{name: "local with none", own: local(nil), problem: "localhostProfile must be set"},
		{name: "local elsewhere", own: local(ptr("../../etc/x.json")), problem: "must be a path below"},
		{name: "odd", own: &corev1.SeccompProfile{Type: "Odd"}, problem: `unknown seccomp profile type "Odd"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(corev1.Container{SecurityContext: &corev1.SecurityContext{SeccompProfile: tt.own}})
			in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: tt.pod}
			in.Settings.SeccompDefault = tt.byDefault
			if tt.problem != "" {
				_, problems := New(in)
				wantProblem(t, problems, "spec.containers[0].securityContext.seccompProfile", tt.problem)
				return
			}
			got := mustConfig(t, in, Late{}).Linux.SecurityContext.Seccomp
			if s := got.ProfileType.String() + " " + got.LocalhostRef; s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

func TestAppArmor(t *testing.T) {
	key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "app"
	for _, tt := range []struct {
		name       string
		pod, own   *corev1.AppArmorProfile
		annotation string
		want       string // type and name of the profile, in the deprecated format
		problem    string
	}{
		{name: "none", want: ""},
		{name: "the pod's", pod: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}, want: "RuntimeDefault  runtime/default"},
		{name: "annotation over the pod's", pod: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
			annotation: "localhost/p", want: "Localhost p localhost/p"},
		{name: "its own over all", own: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}, annotation: "runtime/default", want: "Unconfined  unconfined"},
		{name: "local without a name", own: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}, problem: "localhostProfile must be set"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(corev1.Container{SecurityContext: &corev1.SecurityContext{AppArmorProfile: tt.own}})
			in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: tt.pod}
			in.Pod.Annotations = map[string]string{key: tt.annotation}
			if tt.problem != "" {
				_, problems := New(in)
				wantProblem(t, problems, "spec.containers[0].securityContext.appArmorProfile", tt.problem)
				return
			}
			sc := mustConfig(t, in, Late{}).Linux.SecurityContext
			got := ""
			if a := sc.Apparmor; a != nil {
				got = a.ProfileType.String() + " " + a.LocalhostRef + " " + sc.ApparmorProfile //nolint:staticcheck // for older runtimes
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestVerifyRunAsNonRoot(t *testing.T) {
	yes, no := ptr(true), ptr(false)
	for _, tt := range []struct {
		name     string
		pod, own *corev1.SecurityContext
		uid      *int64
		username string
		want     string
	}{
		{name: "not asked for", uid: ptr[int64](0)},
		{name: "lifted by the container", pod: &corev1.SecurityContext{RunAsNonRoot: yes}, own: &corev1.SecurityContext{RunAsNonRoot: no}, uid: ptr[int64](0)},
		{name: "image of a user", own: &corev1.SecurityContext{RunAsNonRoot: yes}, uid: ptr[int64](65532)},
		{name: "image of root", own: &corev1.SecurityContext{RunAsNonRoot: yes}, uid: ptr[int64](0),
			want: `container has runAsNonRoot and image will run as root (pod: "web_default(u)", container: app)`},
		{name: "image of a name", own: &corev1.SecurityContext{RunAsNonRoot: yes}, username: "app",
			want: `container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root (pod: "web_default(u)", container: app)`},
		{name: "a name, but the pod says who", pod: &corev1.SecurityContext{RunAsNonRoot: yes, RunAsUser: ptr[int64](7)}, username: "app"},
		{name: "the pod says root", pod: &corev1.SecurityContext{RunAsUser: ptr[int64](0)}, own: &corev1.SecurityContext{RunAsNonRoot: yes}, uid: ptr[int64](7),
			want: `container's runAsUser breaks non-root policy (pod: "web_default(u)", container: app)`},
		{name: "an impossible user", own: &corev1.SecurityContext{RunAsNonRoot: yes}, uid: ptr[int64](1 << 32),
			want: `container has runAsNonRoot and image has an invalid user id (4294967296) (pod: "web_default(u)", container: app)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(corev1.Container{SecurityContext: tt.own})
			if tt.pod != nil {
				in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: tt.pod.RunAsNonRoot, RunAsUser: tt.pod.RunAsUser}
			}
			// CVE-2019-11245: podrun must check runAsNonRoot at every start, not only after it has
			// pulled the image.
			_, err := mustPlan(t, in).Config(Late{ImageUID: tt.uid, ImageUsername: tt.username})
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			var e *problem.Error
			if !errors.As(err, &e) || e.Kind != problem.Refused || e.Err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestProcMount(t *testing.T) {
	in := input(corev1.Container{})
	in.ThermalPaths = []string{"/sys/devices/system/cpu/cpu0/thermal_throttle"}
	sc := mustConfig(t, in, Late{}).Linux.SecurityContext
	if !slices.Contains(sc.MaskedPaths, in.ThermalPaths[0]) || !slices.Contains(sc.MaskedPaths, "/proc/kcore") || !slices.Contains(sc.ReadonlyPaths, "/proc/sys") {
		t.Errorf("masked %v, readonly %v", sc.MaskedPaths, sc.ReadonlyPaths)
	}
	in = input(corev1.Container{SecurityContext: &corev1.SecurityContext{ProcMount: ptr(corev1.UnmaskedProcMount)}})
	if sc := mustConfig(t, in, Late{}).Linux.SecurityContext; len(sc.MaskedPaths)+len(sc.ReadonlyPaths) > 0 {
		t.Errorf("masked %v, readonly %v", sc.MaskedPaths, sc.ReadonlyPaths)
	}
}

func TestGroupsInOrder(t *testing.T) {
	in := input(corev1.Container{})
	in.ExtraGroups = []int64{7}
	in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr[int64](1), SupplementalGroups: []int64{9}}
	if diff := cmp.Diff([]int64{1, 9, 7}, mustConfig(t, in, Late{}).Linux.SecurityContext.SupplementalGroups); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStopSignal(t *testing.T) {
	for name, want := range map[corev1.Signal]runtimeapi.Signal{
		"SIGUSR1": runtimeapi.Signal_SIGUSR1, "SIGRTMIN+3": runtimeapi.Signal_SIGRTMINPLUS3, "SIGRTMAX-14": runtimeapi.Signal_SIGRTMAXMINUS14,
	} {
		in := input(corev1.Container{Lifecycle: &corev1.Lifecycle{StopSignal: &name}})
		if got := mustConfig(t, in, Late{}).StopSignal; got != runtimeapi.Signal_RUNTIME_DEFAULT {
			t.Errorf("%s without the gate: %v", name, got)
		}
		in.Settings.FeatureGates = map[string]bool{"ContainerStopSignals": true}
		if got := mustConfig(t, in, Late{}).StopSignal; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestNoSuchContainer(t *testing.T) {
	in := input(corev1.Container{})
	in.Name = "other"
	if _, problems := New(in); len(problems) != 1 || !strings.Contains(problems[0].Message, `"other"`) {
		t.Errorf("got %v", problems)
	}
}
