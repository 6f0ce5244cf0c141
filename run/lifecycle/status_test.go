package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestStatus(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	crash := map[string]Waiting{"a": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	tests := []struct {
		name string
		pod  *corev1.Pod
		obs  *Observed
		in   StatusInput
		want string
	}{
		{
			name: "nothing on the runtime yet",
			pod:  statusPod(always, "a"),
			want: "Pending\n" + strings.Replace(unready("a"), "+PodReady", "-PodReady", 1) + "a: waiting ContainerCreating\n",
		},
		{
			name: "nothing yet, with init containers",
			pod:  statusPod(always, "i:x", "s:y", "a"),
			want: "Pending\n" + strings.Replace(uninitialized("x y", "y a"), "+PodReady", "-PodReady", 1) +
				"x: waiting PodInitializing\ny: waiting PodInitializing\na: waiting PodInitializing\n",
		},
		{
			name: "a sandbox without an address",
			pod:  statusPod(always, "a"),
			obs:  &Observed{Sandboxes: []Sandbox{{ID: "box0", Ready: true, CreatedAt: statusT0}}},
			want: "Pending\n" + strings.Replace(unready("a"), "+PodReady", "-PodReady", 1) + "a: waiting ContainerCreating\n",
		},
		{
			name: "running",
			pod:  statusPod(always, "b", "a"),
			obs:  statusObserved(t, 1, "b=run", "a=run"),
			want: "Running\n" + statusAllTrue + "a: running, started, ready\nb: running, started, ready\n",
		},
		{
			name: "one runs, one is not created",
			pod:  statusPod(always, "b", "a"),
			obs:  statusObserved(t, 1, "b=run"),
			want: "Pending\n" + unready("a") + "a: waiting ContainerCreating\nb: running, started, ready\n",
		},
		{
			name: "created but not started: as before it was created",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=created"),
			want: "Pending\n" + unready("a") + "a: waiting ContainerCreating\n",
		},
		{
			name: "created but not started, with init containers",
			pod:  statusPod(always, "i:x", "a"),
			obs:  statusObserved(t, 1, "x=0", "a=created"),
			want: "Pending\n" + unready("a") + "x: Completed 0, ready\na: waiting PodInitializing\n",
		},
		{
			name: "created again but not started: the pod runs",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=1", "a#1=created"),
			want: "Running\n" + unready("a") + "a: waiting, before: Error 1, restarts 1\n",
		},
		{
			name: "created but not started, because that failed",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=created"),
			in:   StatusInput{Waiting: map[string]Waiting{"a": {Reason: "RunContainerError"}}},
			want: "Pending\n" + unready("a") + "a: waiting RunContainerError\n",
		},
		{
			name: "state unknown",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=unknown"),
			want: "Pending\n" + unready("a") + "a: waiting\n",
		},
		{
			name: "an image that can't be had",
			pod:  statusPod(never, "a"),
			obs:  statusObserved(t, 1),
			in:   StatusInput{Waiting: map[string]Waiting{"a": {Reason: "ErrImagePull", Message: "not found"}}},
			want: "Pending\n" + unready("a") + "a: waiting ErrImagePull\n",
		},
		{
			name: "a reason to wait says nothing of a container that runs",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=run"),
			in:   StatusInput{Waiting: crash},
			want: "Running\n" + statusAllTrue + "a: running, started, ready\n",
		},
		{
			name: "crash loop",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=1", "a#1=2"),
			in:   StatusInput{Waiting: crash},
			want: "Running\n" + unready("a") + "a: waiting CrashLoopBackOff, before: Error 2, restarts 1\n",
		},
		{
			name: "failed, about to be restarted",
			pod:  statusPod(onFailure, "a"),
			obs:  statusObserved(t, 1, "a=1", "a#1=2"),
			want: "Running\n" + unready("a") + "a: Error 2, before: Error 1, restarts 1\n",
		},
		{
			name: "completed under Always is restarted",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=0"),
			want: "Running\n" + unready("a") + "a: Completed 0\n",
		},
		{
			name: "restarted and running",
			pod:  statusPod(onFailure, "a"),
			obs:  statusObserved(t, 1, "a=7", "a#1=run"),
			want: "Running\n" + statusAllTrue + "a: running, before: Error 7, restarts 1, started, ready\n",
		},
		{
			name: "completed before anybody looked is a success (runonce.go, bugs row 29)",
			pod:  statusPod(never, "a", "b"),
			obs:  statusObserved(t, 1, "a=0", "b=0"),
			want: "Succeeded\n" + over(podCompleted) + "a: Completed 0\nb: Completed 0\n",
		},
		{
			name: "completed, and a reason to wait changes nothing",
			pod:  statusPod(onFailure, "a"),
			obs:  statusObserved(t, 1, "a=0"),
			in:   StatusInput{Waiting: crash},
			want: "Succeeded\n" + over(podCompleted) + "a: Completed 0\n",
		},
		{
			name: "failed for good",
			pod:  statusPod(never, "a", "b"),
			obs:  statusObserved(t, 1, "a=0", "b=3"),
			want: "Failed\n" + over(podFailed) + "a: Completed 0\nb: Error 3\n",
		},
		{
			name: "one ended, one still runs",
			pod:  statusPod(never, "a", "b"),
			obs:  statusObserved(t, 1, "a=1", "b=run"),
			want: "Running\n" + unready("a") + "a: Error 1\nb: running, started, ready\n",
		},
		{
			name: "stopped for good under Always",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=137"),
			in:   StatusInput{Over: true, Waiting: crash},
			want: "Failed\n" + over(podFailed) + "a: Error 137\n",
		},
		{
			name: "stopped for good, and it ended well",
			pod:  statusPod(always, "a"),
			obs:  statusObserved(t, 1, "a=0"),
			in:   StatusInput{Over: true},
			want: "Succeeded\n" + over(podCompleted) + "a: Completed 0\n",
		},
		{
			name: "stopped during its init containers (issue 30)",
			pod:  statusPod(always, "i:x", "i:y", "a"),
			obs:  statusObserved(t, 1, "x=143"),
			in:   StatusInput{Over: true},
			want: "Failed\n" + uninitializedFailed("x y") + "x: Error 143\ny: waiting PodInitializing\na: waiting PodInitializing\n",
		},
		{
			name: "stopped during its init containers, which ended well",
			pod:  statusPod(always, "i:x", "i:y", "a"),
			obs:  statusObserved(t, 1, "x=0"),
			in:   StatusInput{Over: true},
			want: "Failed\n" + uninitializedFailed("y") + "x: Completed 0, ready\ny: waiting PodInitializing\na: waiting PodInitializing\n",
		},
		{
			name: "stopped while its sidecar started",
			pod:  statusPod(never, "s:y", "a"),
			obs:  statusObserved(t, 1, "y=137"),
			in:   StatusInput{Over: true},
			want: "Failed\n" + uninitializedFailed("y") + "y: Error 137\na: waiting PodInitializing\n",
		},
		{
			name: "being stopped during its init containers",
			pod:  statusPod(always, "i:x", "a"),
			obs:  statusObserved(t, 1, "x=run"),
			in:   StatusInput{Over: true},
			want: "Pending\n" + uninitializedFailed("x") + "x: running, started\na: waiting PodInitializing\n",
		},
		{
			name: "stopped before all app containers were started, one of which ended well",
			pod:  statusPod(never, "a", "b"),
			obs:  statusObserved(t, 1, "a=0"),
			in:   StatusInput{Over: true},
			want: "Failed\n" + over(podFailed) + "a: Completed 0\nb: waiting ContainerCreating\n",
		},
		{
			name: "refused is a failure (runonce.go, bugs row 29)",
			pod:  statusPod(always, "a"),
			in:   StatusInput{Reason: "OutOfcpu", Message: "Pod was rejected"},
			want: "Failed\n" + strings.Replace(over(podFailed), "+PodReady", "-PodReady", 1) + "a: waiting ContainerCreating\n",
		},
		{
			name: "not failed before all of it has stopped",
			pod:  statusPod(never, "a"),
			obs:  statusObserved(t, 1, "a=run"),
			in:   StatusInput{Reason: "DeadlineExceeded"},
			want: "Running\n" + over(podFailed) + "a: running, started, ready\n",
		},
		{
			name: "first init container runs",
			pod:  statusPod(always, "i:x", "i:y", "a"),
			obs:  statusObserved(t, 1, "x=run"),
			want: "Pending\n" + uninitialized("x y", "a") + "x: running, started\ny: waiting PodInitializing\na: waiting PodInitializing\n",
		},
		{
			name: "one init container of two is done",
			pod:  statusPod(always, "i:x", "i:y", "a"),
			obs:  statusObserved(t, 1, "x=0", "y=run"),
			want: "Pending\n" + uninitialized("y", "a") + "x: Completed 0, ready\ny: running, started\na: waiting PodInitializing\n",
		},
		{
			name: "init container fails for good",
			pod:  statusPod(never, "i:x", "a"),
			obs:  statusObserved(t, 1, "x=5"),
			want: "Failed\n" + strings.NewReplacer(
				"+Initialized", "-Initialized ContainersNotInitialized containers with incomplete status: [x]").Replace(over(podFailed)) +
				"x: Error 5\na: waiting PodInitializing\n",
		},
		{
			name: "init container fails and is tried again",
			pod:  statusPod(onFailure, "i:x", "a"),
			obs:  statusObserved(t, 1, "x=5", "x#1=6"),
			in:   StatusInput{Waiting: map[string]Waiting{"x": {Reason: "CrashLoopBackOff"}}},
			want: "Pending\n" + uninitialized("x", "a") + "x: waiting CrashLoopBackOff, before: Error 6, restarts 1\na: waiting PodInitializing\n",
		},
		{
			name: "init container of a crash loop runs again",
			pod:  statusPod(always, "i:x", "a"),
			obs:  statusObserved(t, 1, "x=5", "x#1=run"),
			want: "Pending\n" + uninitialized("x", "a") + "x: running, before: Error 5, restarts 1, started\na: waiting PodInitializing\n",
		},
		{
			name: "an init container that is done never waits, though the policy is Always",
			pod:  statusPod(always, "i:x", "a"),
			obs:  statusObserved(t, 1, "x=0"),
			in:   StatusInput{Waiting: map[string]Waiting{"x": {Reason: "CrashLoopBackOff"}}},
			want: "Pending\n" + unready("a") + "x: Completed 0, ready\na: waiting PodInitializing\n",
		},
		{
			name: "init containers of an older sandbox are not done (k/k#140309, bugs row 11)",
			pod:  statusPod(always, "i:x", "a"),
			obs:  statusObserved(t, 2, "x@0=0", "a@0=created"),
			want: "Pending\n" + uninitialized("x", "a") + "x: waiting PodInitializing, before: Completed 0\na: waiting PodInitializing\n",
		},
		{
			name: "a new sandbox for a pod that had run: its init containers run again",
			pod:  statusPod(always, "i:x", "a"),
			obs:  statusObserved(t, 2, "x@0=0", "a@0=137", "x#1=run"),
			want: "Pending\n" + uninitialized("x", "a") + "x: running, before: Completed 0, restarts 1, started\na: Error 137\n",
		},
		{
			name: "a pod that must not restart stays over when its sandbox is gone",
			pod:  statusPod(never, "a"),
			obs: func() *Observed {
				obs := statusObserved(t, 1, "a=0")
				obs.Sandboxes[0].Ready = false
				return obs
			}(),
			want: "Succeeded\n" + strings.Replace(over(podCompleted), "+PodReady", "-PodReady", 1) + "a: Completed 0\n",
		},
		{
			name: "a pruned init container has succeeded (k/k#86531, bugs row 12)",
			pod:  statusPod(always, "i:x", "s:y", "a"),
			obs:  statusObserved(t, 1, "y=run", "a=run"),
			want: "Running\n" + statusAllTrue + "x: Completed 0, ready\ny: running, started, ready\na: running, started, ready\n",
		},
		{
			name: "an init container created but never started (k/k#126543, bugs row 13)",
			pod:  statusPod(always, "i:x", "a"),
			obs:  statusObserved(t, 1, "x=created"),
			want: "Pending\n" + uninitialized("x", "a") + "x: waiting PodInitializing\na: waiting PodInitializing\n",
		},
		{
			name: "an init container created while the previous one runs",
			pod:  statusPod(always, "i:x", "i:y", "a"),
			obs:  statusObserved(t, 1, "x=run", "y=created"),
			want: "Pending\n" + uninitialized("x y", "a") + "x: running, started\ny: waiting PodInitializing\na: waiting PodInitializing\n",
		},
		{
			name: "a sidecar runs, the app container is next",
			pod:  statusPod(always, "s:y", "a"),
			obs:  statusObserved(t, 1, "y=run"),
			want: "Pending\n" + unready("a") + "y: running, started, ready\na: waiting PodInitializing\n",
		},
		{
			name: "a sidecar restarts while the app runs: still running, still initialized",
			pod:  statusPod(always, "s:y", "a"),
			obs:  statusObserved(t, 1, "y=1", "a=run"),
			in:   StatusInput{Waiting: map[string]Waiting{"y": {Reason: "CrashLoopBackOff"}}},
			want: "Running\n" + unready("y") + "y: waiting CrashLoopBackOff, before: Error 1\na: running, started, ready\n",
		},
		{
			name: "a sidecar that never ran keeps the pod pending",
			pod:  statusPod(always, "s:y", "a"),
			obs:  statusObserved(t, 1, "y=created", "a=run"),
			want: "Pending\n" + unready("y") + "y: waiting PodInitializing\na: running, started, ready\n",
		},
		{
			name: "the app is done, its sidecar not stopped yet",
			pod:  statusPod(never, "s:y", "a"),
			obs:  statusObserved(t, 1, "y=run", "a=0"),
			want: "Running\n" + unready("a") + "y: running, started, ready\na: Completed 0\n",
		},
		{
			name: "a sidecar's 137 is no failure (k/k#125935, bugs row 13)",
			pod:  statusPod(never, "s:y", "a"),
			obs:  statusObserved(t, 1, "y=137", "a=0"),
			want: "Succeeded\n" + over(podCompleted) + "y: Error 137\na: Completed 0\n",
		},
		{
			name: "an init container failed for good while a sidecar still runs",
			pod:  statusPod(never, "s:y", "i:x", "a"),
			obs:  statusObserved(t, 1, "y=run", "x=1"),
			want: "Pending\n" + strings.NewReplacer(
				"+Initialized", "-Initialized ContainersNotInitialized containers with incomplete status: [x]").Replace(over(podFailed)) +
				"y: running, started, ready\nx: Error 1\na: waiting PodInitializing\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Observed, tt.in.Now = tt.obs, statusMinute(60)
			if diff := cmp.Diff(tt.want, statusText(Status(tt.pod, tt.in))); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatusProbes(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, "s:y", "a")
	pod.Spec.InitContainers[0].StartupProbe = &corev1.Probe{}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
	obs := statusObserved(t, 1, "y=run")
	in := StatusInput{Observed: obs}
	want := "Pending\n" + uninitialized("y", "y a") + "y: running\na: waiting PodInitializing\n"
	if diff := cmp.Diff(want, statusText(Status(pod, in))); diff != "" {
		t.Errorf("no result yet (-want +got):\n%s", diff)
	}

	in = StatusInput{Observed: statusObserved(t, 1, "y=run", "a=run"), Started: map[string]bool{"y-0": true}}
	want = "Running\n" + unready("a") + "y: running, started, ready\na: running, started\n"
	if diff := cmp.Diff(want, statusText(Status(pod, in))); diff != "" {
		t.Errorf("started, not ready (-want +got):\n%s", diff)
	}

	in.Ready = map[string]bool{"a-0": true}
	want = "Running\n" + statusAllTrue + "y: running, started, ready\na: running, started, ready\n"
	if diff := cmp.Diff(want, statusText(Status(pod, in))); diff != "" {
		t.Errorf("ready (-want +got):\n%s", diff)
	}
}

func TestStatusContainerRestartRules(t *testing.T) {
	// KEP-5307: the container's restart policy takes precedence over the pod's.
	own := corev1.ContainerRestartPolicyNever
	pod := statusPod(corev1.RestartPolicyAlways, "a")
	pod.Spec.Containers[0].RestartPolicy = &own
	if got := Status(pod, StatusInput{Observed: statusObserved(t, 1, "a=4")}).Phase; got != corev1.PodFailed {
		t.Errorf("phase = %s, want Failed: the container is never restarted", got)
	}
}

func TestStatusReadinessGates(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, "a")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb/x"}, {ConditionType: "lb/y"}, {ConditionType: "lb/z"}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: "lb/y", Status: corev1.ConditionUnknown},
		{Type: "lb/z", Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "Stale"},
	}
	got := Status(pod, StatusInput{Observed: statusObserved(t, 1, "a=run")})
	want := "Running\n" + `lb/y
+lb/z
+PodReadyToStartContainers
+Initialized
-Ready ReadinessGatesNotReady corresponding condition of pod readiness gate "lb/x" does not exist., the status of pod readiness gate "lb/y" is not "True", but Unknown
+ContainersReady
+PodScheduled
a: running, started, ready
`
	if diff := cmp.Diff(want, statusText(got)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}
