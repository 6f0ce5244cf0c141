package observe

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// viewed returns a pod with one running container, which mounts a volume in four ways, and what the runtime
// reports.
func viewed(handler string) (Known, *lifecycle.Observed) {
	possible, enabled := corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "web"
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers = []corev1.Container{{Name: "app", VolumeMounts: []corev1.VolumeMount{
		{Name: "v", MountPath: "/plain", ReadOnly: true}, {Name: "v", MountPath: "/if", ReadOnly: true, RecursiveReadOnly: &possible},
		{Name: "v", MountPath: "/writable"}, {Name: "v", MountPath: "/must", ReadOnly: true, RecursiveReadOnly: &enabled}}}}
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	return Known{ID: id, Pod: pod}, &lifecycle.Observed{
		Sandboxes:  []lifecycle.Sandbox{{ID: "box", Pod: id, Ready: true, Handler: handler, CreatedAt: time.Unix(1, 0)}},
		Containers: []lifecycle.Container{{ID: "c", Name: "app", SandboxID: "box", State: lifecycle.Running, StartedAt: time.Unix(2, 0)}},
	}
}

// TestViewOfMounts checks whether get shows that a mount is recursively read-only. This depends on the mount,
// and on the handler of the pod's RuntimeClass (KEP-3857). Previously, get always showed Disabled.
func TestViewOfMounts(t *testing.T) {
	able, unable := host.RuntimeHandler{RecursiveReadOnlyMounts: true}, host.RuntimeHandler{}
	for name, tc := range map[string]struct {
		handlers map[string]host.RuntimeHandler
		handler  string
		want     string
	}{
		"a runtime that lists no handlers": {nil, "", "/plain Disabled, /if Disabled, /writable "},
		"able":                             {map[string]host.RuntimeHandler{"": able}, "", "/plain Disabled, /if Enabled, /writable , /must Enabled"},
		"another handler is able":          {map[string]host.RuntimeHandler{"": unable, "other": able}, "", "/plain Disabled, /if Disabled, /writable "},
		"the class's handler is able":      {map[string]host.RuntimeHandler{"": unable, "sealed": able}, "sealed", "/plain Disabled, /if Enabled, /writable , /must Enabled"},
		"the class's handler is not":       {map[string]host.RuntimeHandler{"": able, "sealed": unable}, "sealed", "/plain Disabled, /if Disabled, /writable "},
	} {
		k, obs := viewed(tc.handler)
		if mounts := &k.Pod.Spec.Containers[0].VolumeMounts; !strings.Contains(tc.want, "/must") {
			*mounts = (*mounts)[:3] // podrun refuses the pod
		}
		info := HostInfo{Runtime: host.Runtime{Handlers: tc.handlers}, Handler: HandlerOf(obs)}
		var got []string
		for _, m := range ViewOf(t.Context(), k, obs, info, false, nil, nil).Status.ContainerStatuses[0].VolumeMounts {
			mode := ""
			if m.RecursiveReadOnly != nil {
				mode = string(*m.RecursiveReadOnly)
			}
			got = append(got, m.MountPath+" "+mode)
		}
		if got := strings.Join(got, ", "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestViewReasons checks the phase and the reason of a pod that podrun stopped, or whose files are missing or
// corrupt.
func TestViewReasons(t *testing.T) {
	running := func(k *Known, _ *lifecycle.Observed) {}
	exited := func(_ *Known, obs *lifecycle.Observed) {
		obs.Containers[0].State, obs.Containers[0].ExitCode = lifecycle.Exited, 143
	}
	for name, tc := range map[string]struct {
		change func(k *Known, obs *lifecycle.Observed)
		over   bool
		want   string
	}{
		"running":                 {running, false, "Running "},
		"stopping":                {running, true, "Running " + lifecycle.ReasonStopping},
		"an interrupted removal":  {func(k *Known, _ *lifecycle.Observed) { k.Pod = nil }, false, "Running CheckpointMissing"},
		"an unreadable file":      {func(k *Known, _ *lifecycle.Observed) { k.Pod, k.Broken = nil, errors.New("input/output error") }, false, "Running CheckpointUnreadable"},
		"an unreadable file only": {func(k *Known, obs *lifecycle.Observed) { k.Pod, k.Broken, obs.Containers = nil, errors.New("x"), nil }, false, "Unknown CheckpointUnreadable"},
		"lost Secrets":            {func(k *Known, _ *lifecycle.Observed) { k.LostSecrets = errors.New("lost") }, false, "Running SecretsLost"},
		"ended before the stop": {func(k *Known, obs *lifecycle.Observed) {
			k.Pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			exited(k, obs)
		}, true, "Failed "},
		"stopped": {exited, true, "Failed " + lifecycle.ReasonStopped},
	} {
		k, obs := viewed("")
		tc.change(&k, obs)
		status := ViewOf(t.Context(), k, obs, HostInfo{}, tc.over, nil, nil).Status
		if got := string(status.Phase) + " " + status.Reason; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
