package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"
)

// TestKeptTransitions (conformance C3) checks that a condition's transition time is the time at
// which its status changed.
func TestKeptTransitions(t *testing.T) {
	kept := func(status corev1.ConditionStatus, minute int) []KeptCondition {
		return []KeptCondition{{Type: corev1.PodReady, Status: status, Since: statusMinute(minute)}}
	}
	for _, tc := range []struct {
		name   string
		kept   []KeptCondition
		have   string
		probe  bool
		passed bool
		want   time.Time
	}{
		{"nothing is kept: the container's start", nil, "a=run", false, false, statusMinute(1)},
		{"kept as it is", kept(corev1.ConditionTrue, 7), "a=run", false, false, statusMinute(7)},
		{"became ready with the container's start", kept(corev1.ConditionFalse, 0), "a=run", false, false, statusMinute(1)},
		{"became ready by a probe, now", kept(corev1.ConditionFalse, 0), "a=run", true, true, statusMinute(9)},
		{"stays unready", kept(corev1.ConditionFalse, 3), "a=run", true, false, statusMinute(3)},
		{"a probe fails, now", kept(corev1.ConditionTrue, 3), "a=run", true, false, statusMinute(9)},
		{"became unready with the container's end", kept(corev1.ConditionTrue, 1), "a=1", false, false, statusMinute(1).Add(30 * time.Second)},
	} {
		pod := statusPod(corev1.RestartPolicyAlways, "a")
		if tc.probe {
			pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
		}
		obs := statusObserved(t, 1, tc.have)
		obs.Kept.Conditions = tc.kept
		in := StatusInput{Observed: obs, Ready: map[string]bool{"a-0": tc.passed}, Now: statusMinute(9)}
		status := Status(pod, in)
		at := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if got := status.Conditions[at].LastTransitionTime.Time; !got.Equal(tc.want) {
			t.Errorf("%s: since %s, want %s", tc.name, got, tc.want)
		}
		// A recorded transition time remains the same when the condition is observed again.
		obs.Kept, in.Now = Keep(status, false), statusMinute(30)
		if got := Status(pod, in); !got.Conditions[at].LastTransitionTime.Time.Equal(tc.want) {
			t.Errorf("%s: written down: since %s, want %s", tc.name, got.Conditions[at].LastTransitionTime, tc.want)
		}
	}
}

// TestTerminalPhaseIsNeverTakenBack (conformance C6) checks that a terminated pod does not run
// again, even if the runtime has lost its records.
func TestTerminalPhaseIsNeverTakenBack(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyNever, "a")
	obs := statusObserved(t, 1, "a=0")
	first := Status(pod, StatusInput{Observed: obs, Now: statusMinute(9)})
	if d := Next(pod, World{Observed: obs}); !d.Ended || first.Phase != corev1.PodSucceeded {
		t.Fatalf("the pod has ended: %t, %s", d.Ended, first.Phase)
	}
	after := &Observed{Kept: Keep(first, true)}
	if got := Status(pod, StatusInput{Observed: after, Now: statusMinute(30)}); got.Phase != corev1.PodSucceeded {
		t.Errorf("phase %s without containers, want Succeeded", got.Phase)
	}
	if d := Next(pod, World{Observed: after, Now: statusMinute(30)}); !d.Ended || len(d.Actions) != 0 {
		t.Errorf("next: %+v, want nothing", d)
	}
	after.Sandboxes = []Sandbox{{ID: "box", Ready: true}}
	if d := Next(pod, World{Observed: after}); !d.Ended || len(d.Actions) != 1 || d.Actions[0].Verb != KillPod {
		t.Errorf("with a ready sandbox: %+v, want it stopped", d)
	}

	overdue := Keep(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "too late"}, true)
	if got := Status(pod, StatusInput{Observed: &Observed{Kept: overdue}}); got.Phase != corev1.PodFailed || got.Reason != "DeadlineExceeded" || got.Message != "too late" {
		t.Errorf("%s, %s: %s", got.Phase, got.Reason, got.Message)
	}
	if stopped := Keep(corev1.PodStatus{Phase: corev1.PodFailed}, false); stopped.Terminal() {
		t.Error("the phase of a pod that was stopped is kept: it can be started again")
	}
	if running := Keep(corev1.PodStatus{Phase: corev1.PodRunning}, true); running.Terminal() {
		t.Error("Running is kept as a terminal phase")
	}
}

// TestPhaseWhileAllRestart checks that a pod has not failed while all its containers are being
// restarted, whatever the exit codes of the containers that were not restarted yet.
func TestPhaseWhileAllRestart(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyNever, "a", "b")
	obs := statusObserved(t, 1, "a=137", "b=137", "a#1=0")
	obs.Restarted = firstRuns(obs)
	if got := Status(pod, StatusInput{Observed: obs}).Phase; got != corev1.PodRunning {
		t.Errorf("phase %s before b is restarted, want Running", got)
	}
	obs = statusObserved(t, 1, "a=137", "b=137", "a#1=0", "b#1=1")
	obs.Restarted = firstRuns(obs)
	if got := Status(pod, StatusInput{Observed: obs}).Phase; got != corev1.PodFailed {
		t.Errorf("phase %s after both have ended, want Failed", got)
	}
}

func TestKeptEqual(t *testing.T) {
	full := Kept{Phase: corev1.PodFailed, Reason: "r", Message: "m", OOMKilled: []string{"a"},
		Conditions: []KeptCondition{{Type: "Ready", Status: "True", Since: statusT0}}}
	same := full
	same.Conditions = []KeptCondition{{Type: "Ready", Status: "True", Since: statusT0.In(time.FixedZone("x", 3600))}}
	if !full.Equal(same) {
		t.Error("the same times in another zone differ")
	}
	for i, change := range []func(*Kept){
		func(k *Kept) { k.Phase = corev1.PodSucceeded }, func(k *Kept) { k.Reason = "" }, func(k *Kept) { k.Message = "" },
		func(k *Kept) { k.OOMKilled = nil }, func(k *Kept) { k.Conditions = nil },
		func(k *Kept) {
			*k = (&Observed{Kept: *k}).WithStartFailure("a", Failure{Waiting: Waiting{Reason: RunContainerError}, At: statusT0}, false)
		},
		func(k *Kept) { k.Conditions = []KeptCondition{{Type: "Ready", Status: "True", Since: statusMinute(1)}} },
	} {
		other := full
		if change(&other); full.Equal(other) {
			t.Errorf("change %d is not detected", i)
		}
	}
}

// TestWaits checks that the status shows the most recent reason why a container is waiting, and
// ignores reasons that are older than the container.
func TestWaits(t *testing.T) {
	at := func(seconds int) time.Time { return statusT0.Add(time.Duration(seconds) * time.Second) }
	pull, config, run, crash := Waiting{"ImagePullBackOff", "m"}, Waiting{CreateContainerConfigError, "m"}, Waiting{RunContainerError, "m"}, Waiting{Reason: "CrashLoopBackOff"}
	obs := statusObserved(t, 1, "pulled=run", "pull=1", "started=run", "crashed=128", "restarted=1") // created at minutes 1 to 5
	obs.ImageFailures = map[string]Failure{"pulled": {pull, at(30)}, "pull": {pull, at(150)}, "none": {pull, at(30)}, "made": {pull, at(30)}, "repulled": {pull, at(30)}}
	obs.Kept.StartFailures = map[string]StartFailure{
		"made": {Failure: Failure{config, at(40)}}, "repulled": {Failure: Failure{config, at(20)}}, "started": {Failure: Failure{run, at(1000)}, Newest: "started-0"},
		"crashed": {Failure: Failure{run, at(240)}, Newest: "crashed-0"}, "restarted": {Failure: Failure{run, at(299)}, Newest: "an earlier one"},
	}
	want := map[string]Waiting{"pull": pull, "none": pull, "made": config, "repulled": pull, "crashed": run}
	if diff := cmp.Diff(want, obs.WaitingReasons(nil, at(245))); diff != "" {
		t.Errorf("no back-off (-want +got):\n%s", diff)
	}
	backingOff := map[string]Waiting{"crashed": crash}
	if diff := cmp.Diff(want, obs.WaitingReasons(backingOff, at(249))); diff != "" {
		t.Errorf("at the beginning of a back-off (-want +got):\n%s", diff)
	}
	want["crashed"] = crash
	if diff := cmp.Diff(want, obs.WaitingReasons(backingOff, at(250))); diff != "" {
		t.Errorf("during a back-off (-want +got):\n%s", diff)
	}
	if got := (&Observed{}).WaitingReasons(nil, at(0)); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestEvicted checks that the exits of an evicted pod's containers remain known after podrun has
// removed the containers from the runtime.
func TestEvicted(t *testing.T) {
	all := []Container{
		{ID: "a1", Name: "a", State: Exited, ExitCode: 137, Message: strings.Repeat("x", 4096), Annotations: map[string]string{"k": "v"}},
		{ID: "a0", Name: "a", State: Exited}, {ID: "b0", Name: "b", State: Created},
	}
	k := Kept{}.Evict("The node was low on resource: memory. ", true, statusMinute(3)).WithContainers(all)
	if !k.Terminal() || k.Reason != "Evicted" || len(k.Evicted.Containers) != 1 {
		t.Fatalf("%+v", k)
	}
	if c := k.Evicted.Containers[0]; c.ID != "a1" || c.ExitCode != 137 || len(c.Message) != maxKeptMessage || c.Annotations != nil {
		t.Errorf("%+v", c)
	}
	obs := &Observed{Kept: k, Containers: all[1:2]}
	obs.PutKept()
	obs.PutKept()
	if len(obs.Containers) != 2 {
		t.Errorf("%+v", obs.Containers)
	}
	status := Status(statusPod(corev1.RestartPolicyAlways, "a"), StatusInput{Observed: obs, Now: statusMinute(9)})
	last := status.Conditions[len(status.Conditions)-1]
	if status.Phase != corev1.PodFailed || last.Type != corev1.DisruptionTarget || last.Reason != "TerminationByKubelet" || !last.LastTransitionTime.Time.Equal(statusMinute(3)) {
		t.Errorf("%s, %+v", status.Phase, last)
	}
	if d := Next(statusPod(corev1.RestartPolicyAlways, "a"), World{Observed: obs, Now: statusMinute(9)}); !d.Ended || len(d.Actions) > 0 {
		t.Errorf("%+v", d)
	}
	// If a pod exceeded its own limit, it does not have the condition DisruptionTarget.
	obs.Kept = Kept{}.Evict("Usage of EmptyDir volume \"data\" exceeds the limit \"1Gi\". ", false, statusMinute(3))
	for _, c := range Status(statusPod(corev1.RestartPolicyAlways, "a"), StatusInput{Observed: obs, Now: statusMinute(9)}).Conditions {
		if c.Type == corev1.DisruptionTarget {
			t.Errorf("%+v", c)
		}
	}
}

// TestCreateFailures checks that podrun keeps, for each container name, the status of the last
// failed creation while the sandbox exists. Containers in the runtime do not outlive their sandbox
// either.
func TestCreateFailures(t *testing.T) {
	failed := func(id, name, sandbox string) Container {
		return Container{ID: id, Name: name, SandboxID: sandbox, State: Exited, CreateFailed: true, Message: strings.Repeat("x", 4096)}
	}
	k := Kept{}.WithCreateFailure(failed("a0", "a", "s0")).WithCreateFailure(failed("a1", "a", "s1")).WithCreateFailure(failed("b0", "b", "s0"))
	if len(k.CreateFailures) != 2 || k.CreateFailures[0].ID != "a1" || len(k.CreateFailures[0].Message) != maxKeptMessage {
		t.Fatalf("%+v", k.CreateFailures)
	}
	obs := &Observed{Kept: k, Sandboxes: []Sandbox{{ID: "s1"}}}
	obs.PutKept()
	obs.PutKept()
	if len(obs.Containers) != 1 || obs.Containers[0].ID != "a1" {
		t.Errorf("%+v", obs.Containers)
	}
	if k.Equal(Kept{}) || k.Equal(k.WithoutCreateFailure("a")) || !k.Equal(k) {
		t.Error("Equal ignores the containers that could not be created")
	}
}
