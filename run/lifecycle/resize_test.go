package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resizing returns a pod with containers a and b, which have CPU requests and memory limits.
func resizing(cpu, memory string) *corev1.Pod {
	pod := statusPod(always, "a", "b")
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)},
		}
	}
	return pod
}

func restarting(pod *corev1.Pod, container int, name corev1.ResourceName) {
	c := &pod.Spec.Containers[container]
	c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: corev1.RestartContainer})
}

func TestBeginResize(t *testing.T) {
	was, will := resizing("100m", "64Mi"), resizing("200m", "64Mi")
	obs := statusObserved(t, 1, "a=run", "b=1")
	if r := obs.BeginResize(was, was.DeepCopy(), someHour); r != nil {
		t.Errorf("the same resources: %+v", r)
	}
	obs.Resize = obs.BeginResize(was, will, someHour)
	want := Resources{CPURequest: 100, MemoryLimit: 64 << 20}
	if r := obs.Resize; r == nil || len(r.Containers) != 1 || r.Containers["a-0"] != want || r.Group {
		t.Fatalf("resize %+v", r)
	}
	// A second resize begins before the first one has reached the container.
	if r := obs.BeginResize(will, resizing("300m", "64Mi"), someHour); r.Containers["a-0"] != want {
		t.Errorf("second resize %+v", r)
	}
	// The second resize restores the resources that the container still has, so podrun must update
	// only the pod's cgroup.
	obs.Resize = obs.BeginResize(will, was, someHour)
	if got := obs.ToResize(was); len(got) > 0 {
		t.Errorf("to resize %v", got)
	}
	level := resizing("100m", "64Mi")
	level.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	if r := obs.BeginResize(was, level, someHour); r == nil {
		t.Error("a change of pod-level resources begins no resize")
	}
	if got := ResourcesOf(level, &level.Spec.Containers[0]).CPULimit; got != 2000 {
		t.Errorf("a container without a limit of CPU has %d, want the pod's", got)
	}
}

func TestNextResize(t *testing.T) {
	for _, tc := range []struct {
		name     string
		restarts corev1.ResourceName // resource of container a whose resize requires a restart
		observed []string
		group    bool
		want     string
	}{
		{"both run", "", []string{"a=run", "b=run"}, false, "ResizePod, watch a-0, watch b-0"},
		{"the group is done, the containers are not", "", []string{"a=run", "b=run"}, true, "ResizePod, watch a-0, watch b-0"},
		{"one restarts", "memory", []string{"a=run", "b=run"}, false, "Kill a-0, ResizePod, Start a/1, watch b-0"},
		{"the policy is of a resource that stays", "cpu", []string{"a=run", "b=run"}, false, "ResizePod, watch a-0, watch b-0"},
		{"killed for it, without back-off", "memory", []string{"a=143", "b=run"}, false, "ResizePod, Start a/1, watch b-0"},
		{"one starts for the first time", "", []string{"a=run"}, false, "ResizePod, Start b/0, watch a-0"},
		{"none runs", "", []string{"a=1", "b=1"}, true, "Start a/1, Start b/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			was, will := resizing("100m", "64Mi"), resizing("100m", "128Mi")
			if tc.restarts != "" {
				restarting(will, 0, tc.restarts)
			}
			obs := statusObserved(t, 1, tc.observed...)
			obs.Resize = &Resize{Group: tc.group, Containers: map[string]Resources{}}
			for _, c := range obs.Containers {
				if c.State == Running || c.ExitCode == 143 {
					obs.Resize.Containers[c.ID] = ResourcesOf(was, &was.Spec.Containers[0])
				}
			}
			now := someHour
			if tc.restarts == "memory" {
				now = statusMinute(1).Add(31 * time.Second) // within the back-off of container a
			}
			if got := decisionText(Next(will, World{Observed: obs, Now: now}), now); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestResizeEnds checks that a resize is complete when every container that runs or will run
// again has the resources of the spec.
func TestResizeEnds(t *testing.T) {
	was, will := resizing("100m", "64Mi"), resizing("200m", "64Mi")
	obs := statusObserved(t, 1, "a=run", "b=run")
	obs.Resize = obs.BeginResize(was, will, someHour)
	steps := []struct {
		what string
		do   func()
		want bool
	}{
		{"begun", func() {}, false},
		{"the group", func() { obs.Resize.Group = true }, false},
		{"one container", func() { delete(obs.Resize.Containers, "a-0") }, false},
		{"the other one restarts", func() { obs.Containers[1].State, obs.Containers[1].ExitCode = Exited, 1 }, false},
		{"and was started", func() {
			obs.Put(Container{ID: "b-1", Name: "b", SandboxID: "box0", State: Running, CreatedAt: someHour})
		}, true},
	}
	for _, s := range steps {
		if s.do(); obs.Resized(will) != s.want {
			t.Errorf("%s: ended is %v", s.what, !s.want)
		}
	}
	will.Spec.RestartPolicy = never
	obs = statusObserved(t, 1, "a=0", "b=0")
	obs.Resize = &Resize{Group: true, Containers: map[string]Resources{"a-0": {}}}
	if !obs.Resized(will) {
		t.Error("the resize waits for a container that will not run again")
	}
}

// TestResizeStatus checks the conditions of KEP-1287. It also checks the memory request in the status,
// because the runtime does not report memory requests.
func TestResizeStatus(t *testing.T) {
	pod := resizing("200m", "64Mi")
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("32Mi")
	obs := statusObserved(t, 1, "a=run", "b=run")
	obs.Resize = &Resize{Containers: map[string]Resources{"a-0": {MemoryRequest: 16 << 20}}, Since: statusMinute(7)}
	obs.Kept.ResizePending = &ResizePending{Reason: corev1.PodReasonDeferred, Message: "no room"}
	find := func(kind corev1.PodConditionType) string {
		for _, c := range Status(pod, StatusInput{Observed: obs, Now: someHour}).Conditions {
			if c.Type == kind {
				return strings.Join([]string{string(c.Status), c.Reason, c.Message, c.LastTransitionTime.UTC().Format("15:04")}, "|")
			}
		}
		return ""
	}
	if got := find(corev1.PodResizePending); got != "True|Deferred|no room|04:00" {
		t.Errorf("pending: %s", got)
	}
	if got := find(corev1.PodResizeInProgress); got != "True|||03:07" {
		t.Errorf("in progress: %s", got)
	}
	obs.Resize.Error = "too small"
	if got := find(corev1.PodResizeInProgress); got != "True|Error|too small|03:07" {
		t.Errorf("failed: %s", got)
	}
	s := Status(pod, StatusInput{Observed: obs, Now: someHour}).ContainerStatuses[0]
	if got, asked := s.Resources.Requests.Memory().String(), s.AllocatedResources.Memory().String(); got != "16Mi" || asked != "32Mi" {
		t.Errorf("requests %s, allocated %s", got, asked)
	}
	obs.Resize, obs.Kept.ResizePending = nil, nil
	if got := find(corev1.PodResizePending) + find(corev1.PodResizeInProgress); got != "" {
		t.Errorf("without a resize: %s", got)
	}
}
