package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

func TestStatusAddresses(t *testing.T) {
	tests := []struct {
		name            string
		hostNetwork     bool
		node, pod       []string
		hostIPs, podIPs string
	}{
		{name: "none"},
		{name: "single", node: []string{"192.0.2.1"}, pod: []string{"10.0.0.9"}, hostIPs: "192.0.2.1", podIPs: "10.0.0.9"},
		{name: "the node's family first (k/k#97979)", node: []string{"2001:db8::1", "192.0.2.1"}, pod: []string{"10.0.0.9", "FD00::9"},
			hostIPs: "2001:db8::1 192.0.2.1", podIPs: "fd00::9 10.0.0.9"},
		{name: "one a family, and only addresses", node: []string{"192.0.2.1"}, pod: []string{"", "fd00::1", "10.0.0.8", "10.0.0.9", "fd00::2"},
			hostIPs: "192.0.2.1", podIPs: "10.0.0.8 fd00::1"},
		{name: "host network", hostNetwork: true, node: []string{"192.0.2.1", "2001:db8::1", "192.0.2.2"},
			hostIPs: "192.0.2.1 2001:db8::1", podIPs: "192.0.2.1 2001:db8::1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := statusPod(corev1.RestartPolicyAlways, "a")
			pod.Spec.HostNetwork = tt.hostNetwork
			s := Status(pod, StatusInput{NodeIPs: tt.node, Observed: &Observed{Sandboxes: []Sandbox{{ID: "b", IPs: tt.pod}}}})
			var host, podIPs []string
			for _, ip := range s.HostIPs {
				host = append(host, ip.IP)
			}
			for _, ip := range s.PodIPs {
				podIPs = append(podIPs, ip.IP)
			}
			if got := strings.Join(host, " "); got != tt.hostIPs {
				t.Errorf("hostIPs = %q, want %q", got, tt.hostIPs)
			}
			if got := strings.Join(podIPs, " "); got != tt.podIPs {
				t.Errorf("podIPs = %q, want %q", got, tt.podIPs)
			}
			if len(host) > 0 && s.HostIP != host[0] || len(podIPs) > 0 && s.PodIP != podIPs[0] {
				t.Errorf("hostIP %q, podIP %q are not the first of %q, %q", s.HostIP, s.PodIP, host, podIPs)
			}
		})
	}
}

// TestStatusContainerFields checks every field of the status of a container that was OOM-killed and
// is running again.
func TestStatusContainerFields(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, "a")
	c := &pod.Spec.Containers[0]
	enabled, propagation := corev1.RecursiveReadOnlyEnabled, corev1.MountPropagationHostToContainer
	disabled := corev1.RecursiveReadOnlyDisabled
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Mi")}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "w", MountPath: "/w"},
		{Name: "r", MountPath: "/r", ReadOnly: true},
		{Name: "rr", MountPath: "/rr", ReadOnly: true, RecursiveReadOnly: &enabled},
		{Name: "rp", MountPath: "/rp", ReadOnly: true, RecursiveReadOnly: &enabled, MountPropagation: &propagation},
	}
	obs := statusObserved(t, 1, "a=137", "a#1=run")
	obs.Containers[1].Reason, obs.Containers[1].Message = "OOMKilled", "runtime says"
	obs.Containers[0].User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 2000}}
	obs.Containers[0].Image, obs.Containers[0].ImageID = "docker.io/library/img:1", "docker.io/library/img@sha256:1"
	got := Status(pod, StatusInput{
		Observed: obs, RuntimeName: "cri-o", RecursiveReadOnly: true,
		Messages: map[string]string{"a-0": "app says"},
	}).ContainerStatuses[0]
	started := true
	want := corev1.ContainerStatus{
		Name:  "a",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(statusMinute(2))}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "OOMKilled", Message: "runtime says: app says", ContainerID: "cri-o://a-0",
			StartedAt: metav1.NewTime(statusMinute(1)), FinishedAt: metav1.NewTime(statusMinute(1).Add(30 * time.Second)),
		}},
		Ready: true, Started: &started, RestartCount: 1,
		Image: "docker.io/library/img:1", ImageID: "docker.io/library/img@sha256:1", ContainerID: "cri-o://a-1",
		Resources:          &c.Resources,
		AllocatedResources: c.Resources.Requests,
		User:               &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 2000}},
		VolumeMounts: []corev1.VolumeMountStatus{
			{Name: "w", MountPath: "/w"},
			{Name: "r", MountPath: "/r", ReadOnly: true, RecursiveReadOnly: &disabled},
			{Name: "rr", MountPath: "/rr", ReadOnly: true, RecursiveReadOnly: &enabled},
			{Name: "rp", MountPath: "/rp", ReadOnly: true, RecursiveReadOnly: &disabled},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("container status (-want +got):\n%s", diff)
	}
}

// TestStatusTimes computes the status of the same state at different times, and checks that it
// is the same.
func TestStatusTimes(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, "i:x", "a")
	since := map[corev1.PodConditionType]time.Time{
		corev1.PodReadyToStartContainers: statusT0,
		corev1.PodInitialized:            statusMinute(1).Add(30 * time.Second),
		corev1.PodReady:                  statusMinute(2),
		corev1.ContainersReady:           statusMinute(2),
		corev1.PodScheduled:              statusT0.Add(-time.Second),
	}
	in := StatusInput{Observed: statusObserved(t, 1, "x=0", "a=run"), StartTime: statusT0.Add(-time.Second), Now: statusMinute(9)}
	first := Status(pod, in)
	for _, c := range first.Conditions {
		if !c.LastTransitionTime.Time.Equal(since[c.Type]) || c.ObservedGeneration != 3 {
			t.Errorf("%s since %s, generation %d; want %s, 3", c.Type, c.LastTransitionTime, c.ObservedGeneration, since[c.Type])
		}
	}
	in.Now = statusMinute(10)
	if diff := cmp.Diff(first, Status(pod, in)); diff != "" {
		t.Errorf("a later look differs:\n%s", diff)
	}

	pod.Status = first
	pod.Status.Conditions[2].LastTransitionTime = metav1.NewTime(statusMinute(5))
	if got := Status(pod, in).Conditions[2].LastTransitionTime.Time; !got.Equal(statusMinute(5)) {
		t.Errorf("Ready since %s, want the time in the earlier status", got)
	}
	if s := Status(pod, StatusInput{Now: statusMinute(9)}); s.StartTime != nil {
		t.Errorf("startTime = %s of a pod that does not exist", s.StartTime)
	}
	if s := Status(pod, StatusInput{Observed: in.Observed}); !s.StartTime.Time.Equal(statusT0) {
		t.Errorf("startTime = %s, want the sandbox's creation", s.StartTime)
	}
}

// TestStatusValidates passes statuses to the API's validation of status updates.
func TestStatusValidates(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, "i:x", "s:y", "a", "b")
	pod.Spec.NodeName = "here"
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].TerminationMessagePolicy = corev1.TerminationMessageReadFile
		pod.Spec.Containers[i].ImagePullPolicy = corev1.PullAlways
	}
	pod.Status.QOSClass = corev1.PodQOSBestEffort // the API server sets this field
	old := toInternal(t, pod)
	states := [][]string{{}, {"x=run"}, {"x=0", "y=run", "a=run"}, {"x=0", "y=run", "a=1", "b=run", "a#1=run"}, {"x=0", "y=1", "a=created", "b=unknown"}}
	for _, containers := range states {
		pod.Status = Status(pod, StatusInput{
			Observed: statusObserved(t, 1, containers...), NodeIPs: []string{"192.0.2.1", "2001:db8::1"}, Now: statusMinute(9),
		})
		updated := toInternal(t, pod)
		updated.ResourceVersion, old.ResourceVersion = "1", "1"
		if errs := validation.ValidatePodStatusUpdate(updated, old, validation.PodValidationOptions{}); len(errs) > 0 {
			t.Errorf("containers %q: %v", containers, errs.ToAggregate())
		}
		old = updated
	}
}

func toInternal(t *testing.T, pod *corev1.Pod) *core.Pod {
	t.Helper()
	var out core.Pod
	if err := k8sv1.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &out, nil); err != nil {
		t.Fatal(err)
	}
	return &out
}
