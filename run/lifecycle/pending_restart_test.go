package lifecycle

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// interrupted is a pod whose actions are executed step by step by processes that may be killed between
// any two steps. A killed process loses its knowledge about probes and cgroups; the state in the
// runtime and in the pod's state files remains.
type interrupted struct {
	t     *testing.T
	name  string
	pod   *corev1.Pod
	obs   *Observed
	world World
	// the containers that a process has asked to stop, by ID
	ending map[string]time.Time
	code   int32 // the exit code of killed containers
	steps  int   // number of steps that the process executes before it is killed; negative for all
	// one character for each attempt to create or start container a, in order: x if the attempt fails,
	// - if it succeeds. For example, "-x" lets the first start fail.
	fails string
}

// step counts a step, and reports whether the process is still alive after it.
func (r *interrupted) step() bool {
	r.steps--
	return r.steps != -1
}

// process decides and executes actions until there are none or the process is killed after the given
// number of steps.
func (r *interrupted) process(steps int) (died bool) {
	r.steps = steps
	// The next owner stops these containers before it makes any other decision.
	for id := range r.ending {
		r.exit(id)
	}
	for range 20 {
		r.world.Observed, r.world.Now = r.obs, r.world.Now.Add(time.Hour)
		d := Next(r.pod, r.world)
		for _, a := range d.Actions {
			if !r.do(a) {
				r.world.Unhealthy, r.world.GroupLost = nil, false
				return true
			}
		}
		if r.obs.Resize != nil && r.obs.Resized(r.pod) {
			r.obs.Resize = nil
		}
		r.obs.PendingRestarts = r.obs.CurrentRestarts(r.ending)
		if len(d.Actions) == 0 && !r.initExits() {
			return false
		}
	}
	r.t.Fatalf("%s: the pod still requires actions: %+v", r.name, r.obs)
	return false
}

// initExits makes the running init container succeed.
func (r *interrupted) initExits() bool {
	for i := range r.obs.Containers {
		if c := &r.obs.Containers[i]; c.Name == "i" && c.State == Running {
			c.State, c.FinishedAt = Exited, r.world.Now
			return true
		}
	}
	return false
}

// do executes an action, and reports whether the process completed it.
func (r *interrupted) do(a Action) bool {
	switch a.Verb {
	case KillContainer:
		return r.kill(a.Restart, a.ID)
	case KillPod:
		var ids []string
		for _, c := range r.obs.Containers {
			if c.State == Running {
				ids = append(ids, c.ID)
			}
		}
		if !r.kill(a.Restart, ids...) || !r.step() {
			return false
		}
		for i := range r.obs.Sandboxes {
			r.obs.Sandboxes[i].Ready = false
		}
	case CreateSandbox:
		if !r.step() {
			return false
		}
		r.obs.Sandboxes = append(r.obs.Sandboxes, Sandbox{ID: fmt.Sprint("box", a.Attempt), Attempt: a.Attempt, Ready: true, IPs: []string{"10.0.0.9"}})
		r.obs.Order()
		r.world.GroupLost = false
	case StartContainer:
		return r.start(a)
	case ResizePod:
		if !r.step() {
			return false
		}
		resize := *r.obs.Resize
		resize.Group, resize.Containers = true, maps.Clone(resize.Containers)
		for _, c := range r.obs.ToResize(r.pod) {
			delete(resize.Containers, c.ID)
		}
		r.obs.Resize = &resize
	default:
		r.t.Fatalf("%s: unexpected action %+v", r.name, a)
	}
	return true
}

// start removes containers that never ran, then creates and starts one. Creating or starting it
// may fail.
func (r *interrupted) start(a Action) bool {
	for _, c := range r.obs.Containers {
		if c.Name == a.Container && c.State == Created {
			if !r.step() {
				return false
			}
			r.obs.Drop(c.ID)
			break
		}
	}
	if !r.step() {
		return false
	}
	if r.fail(a.Container) {
		return true
	}
	c := Container{ID: fmt.Sprintf("%s-%d@%s", a.Container, a.Attempt, r.world.Now), Name: a.Container, SandboxID: r.obs.Sandbox().ID, State: Created,
		Restarts: a.Attempt, Hash: r.world.Hashes[a.Container], CreatedAt: r.world.Now}
	r.obs.Put(c)
	if !r.step() {
		return false
	}
	if !r.fail(a.Container) {
		c.State, c.StartedAt = Running, r.world.Now
		r.obs.Put(c)
	}
	return true
}

// fail reports whether the next attempt to create or start a container fails.
func (r *interrupted) fail(container string) bool {
	if container != "a" || r.fails == "" {
		return false
	}
	first := r.fails[0]
	r.fails = r.fails[1:]
	return first == 'x'
}

// kill records the cause, asks the containers to stop, and makes them exit. Each of these is one
// step.
func (r *interrupted) kill(cause RestartCause, ids ...string) bool {
	if cause != "" && len(ids) > 0 {
		if !r.step() {
			return false
		}
		r.obs.PendingRestarts = r.obs.WithPendingRestarts(cause, ids...)
	}
	if !r.step() {
		return false
	}
	for _, id := range ids {
		r.ending[id] = r.world.Now
	}
	for _, id := range ids {
		if !r.step() {
			return false
		}
		r.exit(id)
	}
	return true
}

func (r *interrupted) exit(id string) {
	for i := range r.obs.Containers {
		if c := &r.obs.Containers[i]; c.ID == id && c.State == Running {
			c.State, c.ExitCode, c.FinishedAt = Exited, r.code, r.world.Now
		}
	}
}

// TestInterruptedRestart kills two podrun processes after any of their steps, and checks which
// containers are started again. It covers all restart policies and exit codes, and containers that
// cannot be created. The rules are those of computePodActions in pkg/kubelet/kuberuntime. A
// container that was killed for a change or a resize is always started again. A container that was
// killed because of a probe is started again unless its policy is Never; the pod's policy applies
// to a container without a policy. A container that was killed for a new sandbox is started again
// unless the pod's policy is Never.
func TestInterruptedRestart(t *testing.T) {
	cells := 0
	for _, cause := range []string{"change", "resize", "probe", "cgroup", "change without sandbox", "killed without sandbox"} {
		for _, policy := range []corev1.RestartPolicy{always, onFailure, never} {
			for _, own := range []string{"", "Never", "OnFailure", "Always"} {
				for _, code := range []int32{0, 7} {
					for _, shape := range []string{"a b", "i:i s:s a b"} {
						for _, fails := range []string{"", "x", "-x", "-xx"} {
							for first := range 14 {
								for second := -1; second < 10; second += 2 {
									cells++
									r := interruptedPod(t, cause, policy, own, shape, code)
									r.name, r.fails = fmt.Sprintf("%s/%s/%s/%d/%s/fails %s/%d, %d steps", cause, policy, own, code, shape, fails, first, second), fails
									r.restarts(cause, policy, own, first, second)
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// restarts runs two processes that are killed after first and second steps, and a third one that is
// not killed. It checks whether container a was started again.
func (r *interrupted) restarts(cause string, policy corev1.RestartPolicy, own string, first, second int) {
	died := r.process(first)
	asked := len(r.ending) > 0
	if r.process(second) && !died {
		// The first process had completed the kill.
		asked = true
	}
	r.process(-1)
	want := cause != "probe" || own != "Never" && (own != "" || policy != never)
	switch {
	case died && !asked && (cause == "probe" || cause == "cgroup" && len(r.obs.PendingRestarts) == 0 && r.obs.Newest("a").Restarts == 0):
		// Nothing was recorded, so the next process does not know the cause.
		want = false
	case cause == "cgroup" && policy == never:
		if want = false; died && own != "" {
			// The pod ends, so its containers are not started again.
			return
		}
	}
	a := r.obs.Newest("a")
	if again := a.Restarts > 0 && a.State == Running; again != want {
		r.t.Fatalf("%s: started again: %v, want %v: %+v", r.name, again, want, r.obs.Containers)
	}
	if len(r.obs.PendingRestarts) > 0 && want {
		r.t.Fatalf("%s: %v is still pending", r.name, r.obs.PendingRestarts)
	}
}

// interruptedPod returns a running pod with a reason to restart container a.
func interruptedPod(t *testing.T, cause string, policy corev1.RestartPolicy, own, shape string, code int32) *interrupted {
	pod := statusPod(policy, strings.Fields(shape)...)
	if own != "" {
		p := corev1.ContainerRestartPolicy(own)
		pod.Spec.Containers[0].RestartPolicy = &p
	}
	have := []string{"a=run", "b=run"}
	if len(pod.Spec.InitContainers) > 0 {
		have = append([]string{"i=0", "s=run"}, have...)
	}
	r := &interrupted{t: t, pod: pod, obs: statusObserved(t, 1, have...), code: code, ending: map[string]time.Time{}}
	r.world = World{Now: someHour, Hashes: map[string]string{}}
	for i := range r.obs.Containers {
		c := &r.obs.Containers[i]
		c.Hash = "1"
		r.world.Hashes[c.Name] = "1"
	}
	switch cause {
	case "change":
		r.world.Hashes["a"] = "2"
	case "change without sandbox", "killed without sandbox":
		// A podrun process was killed after it had recorded the restart, either before or after it
		// asked the container to stop. Then the sandbox stopped.
		r.world.Hashes["a"] = "2"
		r.obs.PendingRestarts = r.obs.WithPendingRestarts(RestartChanged, "a-0")
		r.obs.Sandboxes[0].Ready = false
		if cause == "killed without sandbox" {
			r.ending["a-0"] = someHour
		}
	case "resize":
		was := resizing("100m", "64Mi")
		pod.Spec.Containers[0].Resources = resizing("100m", "128Mi").Spec.Containers[0].Resources
		restarting(pod, 0, corev1.ResourceMemory)
		r.obs.Resize = &Resize{Containers: map[string]Resources{"a-0": ResourcesOf(was, &was.Spec.Containers[0])}}
	case "probe":
		r.world.Unhealthy = map[string]Unhealthy{"a-0": {Message: "Container a failed liveness probe"}}
	case "cgroup":
		r.world.GroupLost = true
	}
	return r
}

// TestPendingRestartOfRemovedContainers covers a command that recreates a pod and is interrupted after it has removed
// all containers: the restart counts begin at 0 again. The container that the next command starts completes the
// pending restart.
func TestPendingRestartOfRemovedContainers(t *testing.T) {
	begun := time.Unix(1e9, 0)
	obs := &Observed{Containers: []Container{{ID: "old", Name: "a", Restarts: 7, State: Running, CreatedAt: begun}}}
	obs.PendingRestarts = obs.WithPendingRestarts(RestartChanged, "old")
	for name, tc := range map[string]struct {
		c       Container
		pending bool
	}{
		"the killed one":                 {Container{ID: "old", Name: "a", Restarts: 7, State: Exited, CreatedAt: begun}, true},
		"the killed one, another clock":  {Container{ID: "old", Name: "a", Restarts: 7, State: Exited, CreatedAt: begun.Add(time.Second)}, true},
		"an older one":                   {Container{ID: "older", Name: "a", Restarts: 6, State: Exited, CreatedAt: begun.Add(-time.Hour)}, true},
		"a newer one":                    {Container{ID: "new", Name: "a", Restarts: 8, State: Exited, CreatedAt: begun.Add(time.Minute)}, false},
		"after the removal":              {Container{ID: "new", Name: "a", Restarts: 0, State: Exited, CreatedAt: begun.Add(time.Minute)}, false},
		"after the removal, not started": {Container{ID: "new", Name: "a", Restarts: 0, State: Created, CreatedAt: begun.Add(time.Minute)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			after := &Observed{Containers: []Container{tc.c}, PendingRestarts: obs.PendingRestarts}
			if kept := len(after.CurrentRestarts(nil)) > 0; kept != tc.pending {
				t.Errorf("kept: %v, want %v", kept, tc.pending)
			}
			if applies := after.pendingRestart(&tc.c).Cause != ""; tc.c.State == Exited && applies != tc.pending {
				t.Errorf("applies: %v, want %v", applies, tc.pending)
			}
		})
	}
}
