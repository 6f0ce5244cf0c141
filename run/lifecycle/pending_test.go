package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// interrupted is a pod whose actions are executed step by step by processes that may be
// killed between any two steps: what a process knows of probes and cgroups is lost with it,
// what the runtime and the pod's state files have is not.
type interrupted struct {
	t     *testing.T
	pod   *corev1.Pod
	obs   *Observed
	world World
	code  int32 // with which killed containers exit
	steps int   // that the process does before it is killed; negative for all
}

// step reports whether the process still lives, and counts one step.
func (r *interrupted) step() bool {
	r.steps--
	return r.steps != -1
}

// process decides and executes until there is nothing to do or the process is killed.
func (r *interrupted) process() {
	for range 20 {
		r.world.Observed, r.world.Now = r.obs, r.world.Now.Add(time.Hour)
		d := Next(r.pod, r.world)
		for _, a := range d.Actions {
			if !r.do(a) {
				return
			}
		}
		if r.obs.Resize != nil && r.obs.Resized(r.pod) {
			r.obs.Resize = nil
		}
		r.obs.PendingRestarts = r.obs.WithPendingRestarts(nil)
		if len(d.Actions) == 0 && !r.initExits() {
			return
		}
	}
	r.t.Fatal("the pod does not come to rest")
}

// initExits lets the init container that runs succeed.
func (r *interrupted) initExits() bool {
	for i := range r.obs.Containers {
		if c := &r.obs.Containers[i]; c.Name == "i" && c.State == Running {
			c.State, c.FinishedAt = Exited, r.world.Now
			return true
		}
	}
	return false
}

// do executes an action and reports whether the process lived until it was done.
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
		if !r.step() {
			return false
		}
		r.obs.Put(Container{ID: fmt.Sprint(a.Container, "-", a.Attempt), Name: a.Container, SandboxID: r.obs.Sandbox().ID, State: Running,
			Restarts: a.Attempt, Hash: r.world.Hashes[a.Container], CreatedAt: r.world.Now, StartedAt: r.world.Now})
	case ResizePod:
		if !r.step() {
			return false
		}
		r.obs.Resize.Group = true
		for _, c := range r.obs.ToResize(r.pod) {
			delete(r.obs.Resize.Containers, c.ID)
		}
	default:
		r.t.Fatalf("unexpected action %+v", a)
	}
	return true
}

// kill records the cause and stops containers, one step each.
func (r *interrupted) kill(cause RestartCause, ids ...string) bool {
	if cause != "" && len(ids) > 0 {
		if !r.step() {
			return false
		}
		more := map[string]RestartCause{}
		for _, id := range ids {
			more[id] = cause
		}
		r.obs.PendingRestarts = r.obs.WithPendingRestarts(more)
	}
	for _, id := range ids {
		if !r.step() {
			return false
		}
		for i := range r.obs.Containers {
			if c := &r.obs.Containers[i]; c.ID == id {
				c.State, c.ExitCode, c.FinishedAt = Exited, r.code, r.world.Now
			}
		}
	}
	return true
}

// TestInterruptedRestart: whatever the restart policy, the exit code, and the step after
// which podrun is killed, a container that was killed for a change or a resize is started
// again; one that was killed for a probe is, unless its own policy, otherwise that of the pod,
// is Never; one that was killed for a new sandbox is, unless the pod's policy is Never
// (computePodActions in pkg/kubelet/kuberuntime).
func TestInterruptedRestart(t *testing.T) {
	ownPolicies := []string{"", "Never", "OnFailure", "Always"}
	cells := 0
	for _, cause := range []string{"change", "resize", "probe", "cgroup"} {
		for _, policy := range []corev1.RestartPolicy{always, onFailure, never} {
			for _, own := range ownPolicies {
				for _, code := range []int32{0, 7, 137} {
					for steps := range 12 {
						for _, shape := range []string{"a b", "i:i s:s a b"} {
							cells++
							name := strings.Join([]string{cause, string(policy), own, fmt.Sprint(code, " ", steps), shape}, "/")
							r := interruptedPod(t, cause, policy, own, shape, code)
							r.steps = steps
							r.process()
							died := r.steps < 0
							killed := r.exited("a-0") // it had a reason to be started again that outlives the process
							recorded := len(r.obs.PendingRestarts) > 0
							if died {
								r.world.Unhealthy, r.world.GroupLost = nil, false
							}
							r.steps = -1
							r.process()
							again := r.obs.Newest("a").Restarts > 0 && r.obs.Newest("a").State == Running
							want := cause != "probe" || own != "Never" && (own != "" || policy != never)
							if died && !killed && !recorded && (cause == "probe" || cause == "cgroup") {
								want = false // nothing was done about it, and the next process has to find it out
							}
							if cause == "cgroup" && policy == never {
								if want = false; died && own != "" {
									continue // the pod ends: its containers have nothing to be started again for
								}
							}
							if again != want {
								t.Fatalf("%s: started again: %v, want %v: %+v", name, again, want, r.obs.Containers)
							}
							if len(r.obs.PendingRestarts) > 0 && again {
								t.Fatalf("%s: %v is still pending", name, r.obs.PendingRestarts)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

func (r *interrupted) exited(id string) bool {
	for _, c := range r.obs.Containers {
		if c.ID == id {
			return c.State == Exited
		}
	}
	return false
}

// interruptedPod is a running pod with a reason to restart container a.
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
	r := &interrupted{t: t, pod: pod, obs: statusObserved(t, 1, have...), code: code}
	r.world = World{Now: someHour, Hashes: map[string]string{}}
	for i := range r.obs.Containers {
		c := &r.obs.Containers[i]
		c.Hash = "1"
		r.world.Hashes[c.Name] = "1"
	}
	switch cause {
	case "change":
		r.world.Hashes["a"] = "2"
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
