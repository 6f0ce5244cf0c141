package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
)

// sized returns a pod with the given resources and the given resizePolicy for memory.
func sized(cpu, memory, policy string) string {
	return podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: "+cpu+", memory: 16Mi}, limits: {cpu: 1, memory: "+memory+"}}, "+
		"resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: "+policy+"}]}]")
}

// group reads the first of the given files that exists in the pod's cgroup.
func (r *rig) group(files ...string) string {
	r.t.Helper()
	for _, f := range files {
		for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			found, _ := filepath.Glob(pattern + r.settings.CgroupRoot + "/kubepods/burstable/pod*/" + f)
			if len(found) > 0 {
				data, err := os.ReadFile(found[0])
				if err != nil {
					r.t.Fatal(err)
				}
				return strings.TrimSpace(string(data))
			}
		}
	}
	r.t.Fatalf("the pod's cgroup has none of %v", files)
	return ""
}

func (r *rig) app() critest.Container {
	r.t.Helper()
	c, ok := r.rt.Container("app")
	if !ok {
		r.t.Fatal("there is no container")
	}
	return c
}

// resizeCalls lists the calls of a resize.
func (r *rig) resizeCalls() []string {
	return r.rt.CallNames("UpdateContainerResources", "UpdatePodSandboxResources", "StopContainer", "StartContainer", "RunPodSandbox")
}

// TestResize checks that CPU and memory can be increased and decreased without a restart, in the
// pod's cgroup and in the container.
func TestResize(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.mustDelete()
	r.mustApply(sized("100m", "64Mi", "NotRequired"), run.OutcomeCreated)
	before := r.app()
	for _, step := range []struct{ cpu, memory, shares, bytes string }{
		{"300m", "128Mi", "307", "134217728"},
		{"200m", "32Mi", "204", "33554432"},
	} {
		r.rt.ForgetCalls()
		result := r.mustApply(sized(step.cpu, step.memory, "NotRequired"), run.OutcomeUpdated)
		if want := []string{"spec.containers[0].resources.limits.memory", "spec.containers[0].resources.requests.cpu"}; !slices.Equal(result.What, want) {
			t.Errorf("changes %q, want %q", result.What, want)
		}
		if got := r.resizeCalls(); !slices.Equal(got, []string{"UpdatePodSandboxResources", "UpdateContainerResources app"}) {
			t.Errorf("calls %q", got)
		}
		if c := r.app(); c.ID != before.ID || c.State != before.State {
			t.Errorf("the container is %+v, was %+v", c, before)
		}
		if got := r.group("cpu.shares", "cpu.weight"); got != step.shares && len(got) > 2 {
			t.Errorf("shares of the pod's group %s, want %s", got, step.shares)
		}
		if got := r.group("memory.limit_in_bytes", "memory.max"); got != step.bytes {
			t.Errorf("memory limit of the pod's group %s, want %s", got, step.bytes)
		}
		s := r.got("web").Status
		if l, q := s.ContainerStatuses[0].Resources.Limits.Memory().String(), s.ContainerStatuses[0].Resources.Requests.Cpu().MilliValue(); l != step.memory || q/10 < 10 {
			t.Errorf("the status has limit %s, request %dm", l, q)
		}
		if slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress }) {
			t.Errorf("the resize has not ended: %+v", s.Conditions)
		}
	}
	if !r.emitted("ResizeStarted", `{"containers":[{"name":"app","resources":{"limits":{"cpu":"1","memory":"128Mi"}`) || !r.emitted("ResizeCompleted", "Pod resize completed: {") {
		t.Errorf("events %q", r.reasons())
	}
	r.mustApply(sized("200m", "32Mi", "NotRequired"), run.OutcomeUnchanged)
}

// TestResizeRestarts checks that podrun restarts only the container whose resizePolicy requires a
// restart.
func TestResizeRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.mustDelete()
	r.mustApply(sized("100m", "64Mi", "RestartContainer"), run.OutcomeCreated)
	before := r.app()
	r.mustApply(sized("200m", "64Mi", "RestartContainer"), run.OutcomeUpdated)
	if c := r.app(); c.ID != before.ID {
		t.Error("CPU alone restarts the container")
	}
	r.rt.ForgetCalls()
	r.mustApply(sized("200m", "128Mi", "RestartContainer"), run.OutcomeUpdated)
	c := r.app()
	if got := c.Config.Linux.Resources.MemoryLimitInBytes; c.ID == before.ID || got != 128<<20 || len(r.rt.Sandboxes()) != 1 {
		t.Errorf("container %s with %d bytes, was %s; %d sandboxes", c.ID, got, before.ID, len(r.rt.Sandboxes()))
	}
	if got := r.rt.CallNames("UpdateContainerResources"); len(got) > 0 {
		t.Errorf("calls %q", got)
	}
	if !r.emitted("Killing app", "Container app resize requires restart") || !r.emitted("ResizeCompleted", "") {
		t.Errorf("events %q", r.reasons())
	}
}

// TestResizeBelowUsage covers a memory limit below the current usage: podrun must refuse the limit
// before it changes anything, show the refusal in the status, and retry the resize.
func TestResizeBelowUsage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.mustDelete()
	r.mustApply(sized("100m", "64Mi", "NotRequired"), run.OutcomeCreated)
	r.rt.SetMemory("app", 48<<20)
	r.rt.ForgetCalls()
	result := r.apply(sized("100m", "32Mi", "NotRequired"))
	if result.Err == nil || !strings.Contains(result.Err.Error(), `cannot decrease memory limits: attempting to set container "app" memory limit (33554432) below current usage (50331648)`) {
		t.Fatalf("apply: %v", result.Err)
	}
	if got := r.resizeCalls(); len(got) > 0 {
		t.Errorf("calls %q", got)
	}
	conditions := r.got("web").Status.Conditions
	at := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress })
	if at < 0 || conditions[at].Reason != "Error" || !strings.Contains(conditions[at].Message, "below current usage") {
		t.Errorf("conditions %+v", conditions)
	}
	if s := r.got("web").Status.ContainerStatuses[0]; s.Resources.Limits.Memory().String() != "64Mi" || s.AllocatedResources.Memory().String() != "16Mi" {
		t.Errorf("status %+v", s)
	}
	r.rt.SetMemory("app", 8<<20)
	r.mustApply(sized("100m", "32Mi", "NotRequired"), run.OutcomeUnchanged)
	if got := r.group("memory.limit_in_bytes", "memory.max"); got != "33554432" {
		t.Errorf("memory limit of the pod's group %s", got)
	}
	if got := r.got("web").Status.ContainerStatuses[0].Resources.Limits.Memory().String(); got != "32Mi" {
		t.Errorf("limit %s", got)
	}
}

// TestResizeRefused checks that podrun refuses a resize that exceeds the host's resources, and
// that the pod keeps its resources.
func TestResizeRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.mustDelete()
	r.mustApply(podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: 10m}}}]"), run.OutcomeCreated)
	before := r.app()
	result := r.apply(podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: 4000}}}]"))
	if result.Err == nil || !strings.Contains(result.Err.Error(), "Node didn't have enough resource: cpu") {
		t.Fatalf("apply: %v", result.Err)
	}
	if c := r.app(); c.ID != before.ID || c.State != before.State {
		t.Errorf("container %+v, was %+v", c, before)
	}
	r.settings.SwapBehavior = "LimitedSwap"
	result = r.apply(podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: 10m, memory: 10Mi}}}]"))
	if result.Err == nil || !strings.Contains(result.Err.Error(), "In-place resize of containers with swap is not supported") {
		t.Errorf("with swap: %v", result.Err)
	}
}

// TestResizeInterrupted kills podrun after it has written the definition and before it resizes.
// The next podrun process must complete the resize.
func TestResizeInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.mustDelete()
	r.mustApply(sized("100m", "64Mi", "NotRequired"), run.OutcomeCreated)
	end := r.rt.Fault("UpdateContainerResources", critest.Fault{When: critest.Before})
	if result := r.apply(sized("100m", "128Mi", "NotRequired")); result.Err == nil {
		t.Fatal("the runtime's error is lost")
	}
	end()
	if got := r.group("memory.limit_in_bytes", "memory.max"); got != "134217728" {
		t.Errorf("the pod's cgroup was not increased first: %s", got)
	}
	r.mustApply(sized("100m", "128Mi", "NotRequired"), run.OutcomeUnchanged)
	if got := r.got("web").Status.ContainerStatuses[0].Resources.Limits.Memory().String(); got != "128Mi" {
		t.Errorf("limit %s", got)
	}
}

// TestServeResizes checks that a changed file resizes the pod. If the file requests more than this
// host has at the moment, the resize must be Deferred until resources are free.
func TestServeResizes(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *serving) {
		text := func(name, memory string) string {
			return podText(name, "Always", "containers: [{name: "+name+", image: registry.example/app:1, resources: {requests: {memory: "+memory+"}}}]")
		}
		s.files.write(file("web"), text("web", "16Mi"))
		time.Sleep(5 * time.Second)
		web := s.running("web")
		s.files.write(file("web"), text("web", "32Mi"))
		time.Sleep(5 * time.Second)
		s.same(web)
		if got := s.status("web").ContainerStatuses[0].AllocatedResources.Memory().String(); got != "32Mi" {
			t.Errorf("allocated %s", got)
		}
		s.files.write(file("web"), text("web", "4000Ti"))
		time.Sleep(5 * time.Second)
		s.same(web)
		pending := func() string {
			for _, c := range s.status("web").Conditions {
				if c.Type == corev1.PodResizePending {
					return c.Reason + " " + c.Message
				}
			}
			return ""
		}
		if got := pending(); !strings.HasPrefix(got, "Deferred ") || !strings.Contains(got, "Node didn't have enough resource: memory") {
			t.Errorf("condition %q; warnings %q", got, s.warnings)
		}
		if !s.emitted("ResizeDeferred", "Pod resize Deferred: ") {
			t.Errorf("events %q", s.reasons())
		}
		s.files.write(file("web"), text("web", "32Mi"))
		time.Sleep(5 * time.Second)
		s.same(web)
		if got := pending(); got != "" {
			t.Errorf("condition %q after the file requests the pod's current resources", got)
		}
	})
}
