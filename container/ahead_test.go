package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestCreatesAfter checks that podrun may create a container before the previous one has started or
// completed. It must not if the previous container can change data that is read when the container
// is created.
func TestCreatesAfter(t *testing.T) {
	type change func(in *Input, c *corev1.Container)
	none := func(*Input, *corev1.Container) {}
	mount := func(path string, m corev1.VolumeMount) change {
		return func(in *Input, c *corev1.Container) {
			m.Name, m.MountPath = "data", "/data"
			c.VolumeMounts = []corev1.VolumeMount{m}
			in.Mounts = map[string]MountSource{"data": {HostPath: path}}
		}
	}
	security := func(s corev1.SecurityContext) change {
		return func(_ *Input, c *corev1.Container) { c.SecurityContext = &s }
	}
	own := string(input(corev1.Container{}).Layout.Pod("u")) + "/volumes/kubernetes.io~empty-dir/data"
	bidirectional, toContainer := corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer
	for name, test := range map[string]struct {
		previous, c change
		want        bool
	}{
		"plain":                          {none, none, true},
		"a volume of the pod":            {mount(own, corev1.VolumeMount{}), mount(own, corev1.VolumeMount{}), true},
		"a subPath":                      {none, mount(own, corev1.VolumeMount{SubPath: "x"}), false},
		"a subPath of the previous":      {mount(own, corev1.VolumeMount{SubPath: "x"}), none, true},
		"a subPathExpr":                  {none, mount(own, corev1.VolumeMount{SubPathExpr: "x"}), false},
		"a path of the host":             {none, mount("/srv", corev1.VolumeMount{}), false},
		"the previous has a path":        {mount("/srv", corev1.VolumeMount{}), none, false},
		"a path that looks like the pod": {none, mount(string(input(corev1.Container{}).Layout.Pod("u"))+"2/x", corev1.VolumeMount{}), false},
		"mount propagation":              {none, mount(own, corev1.VolumeMount{MountPropagation: &toContainer}), false},
		"the previous propagates mounts": {mount(own, corev1.VolumeMount{MountPropagation: &bidirectional}), none, false},
		"an image volume": {none, func(in *Input, c *corev1.Container) {
			c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
			in.Mounts = map[string]MountSource{"data": {}}
		}, false},
		"privileged":            {none, security(corev1.SecurityContext{Privileged: ptr(true)}), false},
		"the previous is":       {security(corev1.SecurityContext{Privileged: ptr(true)}), none, false},
		"Localhost seccomp":     {none, security(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("p")}}), false},
		"Localhost AppArmor":    {none, security(corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr("p")}}), false},
		"the runtime's profile": {none, security(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}), true},
		"a block device":        {none, func(_ *Input, c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "d"}} }, false},
		"a variable from a file": {none, func(_ *Input, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "p", Key: "k"}}}}
		}, false},
		"the host's process IDs": {none, func(in *Input, _ *corev1.Container) { in.Pod.Spec.HostPID = true }, false},
		"a host with SELinux":    {none, func(in *Input, _ *corev1.Container) { in.Facts.SELinux = true }, false},
		"a postStart hook": {none, func(_ *Input, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		}, true},
		"the previous has a hook": {func(_ *Input, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		}, none, false},
	} {
		t.Run(name, func(t *testing.T) {
			plan := func(f change) Plan {
				in := input(corev1.Container{})
				f(&in, &in.Pod.Spec.Containers[0])
				// The problem that a seccomp profile does not exist is ignored.
				p, _ := New(in)
				return p
			}
			if got := plan(test.c).CreatesAfter(plan(test.previous)); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
	with := plannedAs(t, App).WithDevices([]string{"vendor.example/class=one"})
	if plannedAs(t, App).CreatesAfter(with) || with.CreatesAfter(plannedAs(t, App)) {
		t.Error("a container is created before or after a container with a CDI device")
	}
	for _, kinds := range []struct {
		previous, c Kind
		want        bool
	}{{App, App, true}, {Init, Init, true}, {Init, Sidecar, true}, {Sidecar, Init, false}, {Sidecar, Sidecar, false}, {Init, App, false}, {Sidecar, App, false}, {App, Ephemeral, false}, {Ephemeral, App, false}} {
		if got := plannedAs(t, kinds.c).CreatesAfter(plannedAs(t, kinds.previous)); got != kinds.want {
			t.Errorf("%s after %s: %v", kinds.c, kinds.previous, got)
		}
	}
}

func plannedAs(t *testing.T, kind Kind) Plan {
	p := mustPlan(t, input(corev1.Container{}))
	p.Kind = kind
	return p
}
