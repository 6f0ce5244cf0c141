package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusT0 is the time at which the pods of these tests were created. Their containers start and
// exit at whole minutes after that time.
var statusT0 = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func statusMinute(n int) time.Time { return statusT0.Add(time.Duration(n) * time.Minute) }

// statusPod returns a pod with the named containers: "a" is an app container, "i:x" an init
// container, "s:x" a sidecar.
func statusPod(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", Generation: 3}}
	pod.Spec.RestartPolicy = policy
	always := corev1.ContainerRestartPolicyAlways
	for _, n := range names {
		kind, name, special := strings.Cut(n, ":")
		switch {
		case !special:
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: n, Image: "img"})
		case kind == "s":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Image: "img", RestartPolicy: &always})
		default:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Image: "img"})
		}
	}
	return pod
}

// statusObserved returns the runtime's state of a pod. It has sandboxes with attempts 0 to sandboxes-1,
// the last of which is ready. Its containers are in the format "name[@sandbox][#restarts]=state", where
// state is run, created, unknown or an exit code. The containers are created in the given order, one
// minute apart, and run for half a minute. Their IDs are name-restarts.
func statusObserved(t *testing.T, sandboxes int, containers ...string) *Observed {
	t.Helper()
	obs := &Observed{}
	for i := range sandboxes {
		obs.Sandboxes = append(obs.Sandboxes, Sandbox{
			ID: fmt.Sprint("box", i), Attempt: uint32(i), Ready: i == sandboxes-1,
			CreatedAt: statusT0.Add(time.Duration(i) * time.Second), IPs: []string{"10.0.0.9"},
		})
	}
	for i, text := range containers {
		name, state, _ := strings.Cut(text, "=")
		var c Container
		name, restarts, ok := strings.Cut(name, "#")
		if ok {
			fmt.Sscan(restarts, &c.Restarts)
		}
		name, box, ok := strings.Cut(name, "@")
		if !ok {
			box = fmt.Sprint(sandboxes - 1)
		}
		c.ID, c.Name, c.SandboxID = fmt.Sprintf("%s-%d", name, c.Restarts), name, "box"+box
		c.CreatedAt, c.StartedAt = statusMinute(i+1), statusMinute(i+1)
		switch state {
		case "run":
			c.State = Running
		case "created":
			c.State, c.StartedAt = Created, time.Time{}
		case "unknown":
			c.State = Unknown
		default:
			c.State, c.FinishedAt = Exited, c.StartedAt.Add(30*time.Second)
			if _, err := fmt.Sscan(state, &c.ExitCode); err != nil {
				t.Fatalf("state of %q: %v", text, err)
			}
			c.Reason = map[bool]string{true: "Completed", false: "Error"}[c.ExitCode == 0]
		}
		obs.Containers = append(obs.Containers, c)
	}
	obs.Order()
	return obs
}

// statusText formats the parts of a status that these tests compare: the phase, each condition with
// a reason, and each container.
func statusText(s corev1.PodStatus) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.Phase)
	for _, c := range s.Conditions {
		sign := map[corev1.ConditionStatus]string{corev1.ConditionTrue: "+", corev1.ConditionFalse: "-"}[c.Status]
		fmt.Fprintln(&b, strings.Join(strings.Fields(sign+string(c.Type)+" "+c.Reason+" "+c.Message), " "))
	}
	for _, c := range append(append([]corev1.ContainerStatus{}, s.InitContainerStatuses...), s.ContainerStatuses...) {
		fmt.Fprintf(&b, "%s: %s", c.Name, stateText(c.State))
		if last := stateText(c.LastTerminationState); last != "" {
			fmt.Fprintf(&b, ", before: %s", last)
		}
		if c.RestartCount > 0 {
			fmt.Fprintf(&b, ", restarts %d", c.RestartCount)
		}
		fmt.Fprintf(&b, "%s%s\n", map[bool]string{true: ", started"}[*c.Started], map[bool]string{true: ", ready"}[c.Ready])
	}
	return b.String()
}

func stateText(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Waiting != nil:
		return strings.TrimSpace("waiting " + s.Waiting.Reason)
	case s.Terminated != nil:
		return fmt.Sprintf("%s %d", s.Terminated.Reason, s.Terminated.ExitCode)
	}
	return ""
}

// The conditions of a ready pod.
const statusAllTrue = "+PodReadyToStartContainers\n+Initialized\n+Ready\n+ContainersReady\n+PodScheduled\n"

// unready returns the conditions of an initialized pod with unready containers.
func unready(names string) string {
	why := "ContainersNotReady containers with unready status: [" + names + "]\n"
	return "+PodReadyToStartContainers\n+Initialized\n-Ready " + why + "-ContainersReady " + why + "+PodScheduled\n"
}

// uninitialized returns the conditions of a pod with incomplete init containers.
func uninitialized(incomplete, names string) string {
	return strings.Replace(unready(names), "+Initialized\n",
		"-Initialized ContainersNotInitialized containers with incomplete status: ["+incomplete+"]\n", 1)
}

// uninitializedFailed returns the conditions of a failed pod with incomplete init containers.
func uninitializedFailed(incomplete string) string {
	return strings.Replace(over(podFailed), "+Initialized\n",
		"-Initialized ContainersNotInitialized containers with incomplete status: ["+incomplete+"]\n", 1)
}

// over returns the conditions of a pod that has ended.
func over(reason string) string {
	initialized := "+Initialized\n"
	if reason == podCompleted {
		initialized = "+Initialized PodCompleted\n"
	}
	return "+PodReadyToStartContainers\n" + initialized + "-Ready " + reason + "\n-ContainersReady " + reason + "\n+PodScheduled\n"
}
