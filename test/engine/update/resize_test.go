package update

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
	"github.com/podrun/podrun/test/engine/rig"
)

// sized returns a pod with the given resources and the given resizePolicy for memory.
func sized(cpu, memory, policy string) string {
	return rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: "+cpu+", memory: 16Mi}, limits: {cpu: 1, memory: "+memory+"}}, "+
		"resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: "+policy+"}]}]")
}

// group reads the first of the given files that exists in the pod's cgroup.
func group(r *rig.Host, files ...string) string {
	r.T.Helper()
	for _, f := range files {
		for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			found, _ := filepath.Glob(pattern + r.Settings.CgroupRoot + "/kubepods/burstable/pod*/" + f)
			if len(found) > 0 {
				data, err := os.ReadFile(found[0])
				if err != nil {
					r.T.Fatal(err)
				}
				return strings.TrimSpace(string(data))
			}
		}
	}
	r.T.Fatalf("the pod's cgroup has none of %v", files)
	return ""
}

func app(r *rig.Host) critest.Container {
	r.T.Helper()
	c, ok := r.Runtime.Container("app")
	if !ok {
		r.T.Fatal("there is no container")
	}
	return c
}

// resizeCalls lists the calls of a resize.
func resizeCalls(r *rig.Host) []string {
	return r.Runtime.CallNames("UpdateContainerResources", "UpdatePodSandboxResources", "StopContainer", "StartContainer", "RunPodSandbox")
}

// TestResize checks that CPU and memory can be increased and decreased without a restart, in the
// pod's cgroup and in the container.
func TestResize(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	r.MustApply(sized("100m", "64Mi", "NotRequired"), run.OutcomeCreated)
	before := app(r)
	for _, step := range []struct{ cpu, memory, shares, bytes string }{
		{"300m", "128Mi", "307", "134217728"},
		{"200m", "32Mi", "204", "33554432"},
	} {
		r.Runtime.ForgetCalls()
		result := r.MustApply(sized(step.cpu, step.memory, "NotRequired"), run.OutcomeUpdated)
		if want := []string{"spec.containers[0].resources.limits.memory", "spec.containers[0].resources.requests.cpu"}; !slices.Equal(result.What, want) {
			t.Errorf("changes %q, want %q", result.What, want)
		}
		if got := resizeCalls(r); !slices.Equal(got, []string{"UpdatePodSandboxResources", "UpdateContainerResources app"}) {
			t.Errorf("calls %q", got)
		}
		if c := app(r); c.ID != before.ID || c.State != before.State {
			t.Errorf("the container is %+v, was %+v", c, before)
		}
		if got := group(r, "cpu.shares", "cpu.weight"); got != step.shares && len(got) > 2 {
			t.Errorf("shares of the pod's group %s, want %s", got, step.shares)
		}
		if got := group(r, "memory.limit_in_bytes", "memory.max"); got != step.bytes {
			t.Errorf("memory limit of the pod's group %s, want %s", got, step.bytes)
		}
		s := r.Pod("web").Status
		if l, q := s.ContainerStatuses[0].Resources.Limits.Memory().String(), s.ContainerStatuses[0].Resources.Requests.Cpu().MilliValue(); l != step.memory || q/10 < 10 {
			t.Errorf("the status has limit %s, request %dm", l, q)
		}
		if slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress }) {
			t.Errorf("the resize has not ended: %+v", s.Conditions)
		}
	}
	if !r.Emitted("ResizeStarted", `{"containers":[{"name":"app","resources":{"limits":{"cpu":"1","memory":"128Mi"}`) || !r.Emitted("ResizeCompleted", "Pod resize completed: {") {
		t.Errorf("events %q", r.Reasons())
	}
	r.MustApply(sized("200m", "32Mi", "NotRequired"), run.OutcomeUnchanged)
}

// TestResizeRestarts checks that podrun restarts only the container whose resizePolicy requires a
// restart.
func TestResizeRestarts(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	r.MustApply(sized("100m", "64Mi", "RestartContainer"), run.OutcomeCreated)
	before := app(r)
	r.MustApply(sized("200m", "64Mi", "RestartContainer"), run.OutcomeUpdated)
	if c := app(r); c.ID != before.ID {
		t.Error("CPU alone restarts the container")
	}
	r.Runtime.ForgetCalls()
	r.MustApply(sized("200m", "128Mi", "RestartContainer"), run.OutcomeUpdated)
	c := app(r)
	if got := c.Config.Linux.Resources.MemoryLimitInBytes; c.ID == before.ID || got != 128<<20 || len(r.Runtime.Sandboxes()) != 1 {
		t.Errorf("container %s with %d bytes, was %s; %d sandboxes", c.ID, got, before.ID, len(r.Runtime.Sandboxes()))
	}
	if got := r.Runtime.CallNames("UpdateContainerResources"); len(got) > 0 {
		t.Errorf("calls %q", got)
	}
	if !r.Emitted("Killing app", "Container app resize requires restart") || !r.Emitted("ResizeCompleted", "") {
		t.Errorf("events %q", r.Reasons())
	}
}

// TestResizeBelowUsage covers a memory limit below the current usage: podrun must refuse the limit
// before it changes anything, show the refusal in the status, and retry the resize.
func TestResizeBelowUsage(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	r.MustApply(sized("100m", "64Mi", "NotRequired"), run.OutcomeCreated)
	r.Runtime.SetMemory("app", 48<<20)
	r.Runtime.ForgetCalls()
	result := r.Apply(sized("100m", "32Mi", "NotRequired"))
	if result.Err == nil || !strings.Contains(result.Err.Error(), `cannot decrease memory limits: attempting to set container "app" memory limit (33554432) below current usage (50331648)`) {
		t.Fatalf("apply: %v", result.Err)
	}
	if got := resizeCalls(r); len(got) > 0 {
		t.Errorf("calls %q", got)
	}
	conditions := r.Pod("web").Status.Conditions
	at := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress })
	if at < 0 || conditions[at].Reason != "Error" || !strings.Contains(conditions[at].Message, "below current usage") {
		t.Errorf("conditions %+v", conditions)
	}
	if s := r.Pod("web").Status.ContainerStatuses[0]; s.Resources.Limits.Memory().String() != "64Mi" || s.AllocatedResources.Memory().String() != "16Mi" {
		t.Errorf("status %+v", s)
	}
	r.Runtime.SetMemory("app", 8<<20)
	r.MustApply(sized("100m", "32Mi", "NotRequired"), run.OutcomeUnchanged)
	if got := group(r, "memory.limit_in_bytes", "memory.max"); got != "33554432" {
		t.Errorf("memory limit of the pod's group %s", got)
	}
	if got := r.Pod("web").Status.ContainerStatuses[0].Resources.Limits.Memory().String(); got != "32Mi" {
		t.Errorf("limit %s", got)
	}
}

// TestResizeRefused checks that podrun refuses a resize that exceeds the host's resources, and
// that the pod keeps its resources.
func TestResizeRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: 10m}}}]"), run.OutcomeCreated)
	before := app(r)
	result := r.Apply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: 4000}}}]"))
	if result.Err == nil || !strings.Contains(result.Err.Error(), "Node didn't have enough resource: cpu") {
		t.Fatalf("apply: %v", result.Err)
	}
	if c := app(r); c.ID != before.ID || c.State != before.State {
		t.Errorf("container %+v, was %+v", c, before)
	}
	r.Settings.SwapBehavior = "LimitedSwap"
	result = r.Apply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {requests: {cpu: 10m, memory: 10Mi}}}]"))
	if result.Err == nil || !strings.Contains(result.Err.Error(), "In-place resize of containers with swap is not supported") {
		t.Errorf("with swap: %v", result.Err)
	}
}

// TestResizeInterrupted kills podrun after it has written the definition and before it resizes.
// The next podrun process must complete the resize.
func TestResizeInterrupted(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	r.MustApply(sized("100m", "64Mi", "NotRequired"), run.OutcomeCreated)
	end := r.Runtime.Fault("UpdateContainerResources", critest.Fault{When: critest.Before})
	if result := r.Apply(sized("100m", "128Mi", "NotRequired")); result.Err == nil {
		t.Fatal("the runtime's error is lost")
	}
	end()
	if got := group(r, "memory.limit_in_bytes", "memory.max"); got != "134217728" {
		t.Errorf("the pod's cgroup was not increased first: %s", got)
	}
	r.MustApply(sized("100m", "128Mi", "NotRequired"), run.OutcomeUnchanged)
	if got := r.Pod("web").Status.ContainerStatuses[0].Resources.Limits.Memory().String(); got != "128Mi" {
		t.Errorf("limit %s", got)
	}
}

// TestServeResizes checks that a changed file resizes the pod. If the file requests more than this
// host has at the moment, the resize must be Deferred until resources are free.
func TestServeResizes(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		text := func(name, memory string) string {
			return rig.PodText(name, "Always", "containers: [{name: "+name+", image: registry.example/app:1, resources: {requests: {memory: "+memory+"}}}]")
		}
		s.Files.Write(rig.File("web"), text("web", "16Mi"))
		time.Sleep(5 * time.Second)
		web := s.Running("web")
		s.Files.Write(rig.File("web"), text("web", "32Mi"))
		time.Sleep(5 * time.Second)
		s.Same(web)
		if got := s.Pod("web").Status.ContainerStatuses[0].AllocatedResources.Memory().String(); got != "32Mi" {
			t.Errorf("allocated %s", got)
		}
		s.Files.Write(rig.File("web"), text("web", "4000Ti"))
		time.Sleep(5 * time.Second)
		s.Same(web)
		pending := func() string {
			for _, c := range s.Pod("web").Status.Conditions {
				if c.Type == corev1.PodResizePending {
					return c.Reason + " " + c.Message
				}
			}
			return ""
		}
		if got := pending(); !strings.HasPrefix(got, "Deferred ") || !strings.Contains(got, "Node didn't have enough resource: memory") {
			t.Errorf("condition %q; warnings %q", got, s.Warnings())
		}
		if !s.Emitted("ResizeDeferred", "Pod resize Deferred: ") {
			t.Errorf("events %q", s.Reasons())
		}
		s.Files.Write(rig.File("web"), text("web", "32Mi"))
		time.Sleep(5 * time.Second)
		s.Same(web)
		if got := pending(); got != "" {
			t.Errorf("condition %q after the file requests the pod's current resources", got)
		}
	})
}
