package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"
)

// debugged returns a pod with ephemeral containers.
func debugged(pod *corev1.Pod, names ...string) *corev1.Pod {
	for _, n := range names {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers,
			corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: n, Image: "img"}})
	}
	return pod
}

func TestNextEphemeral(t *testing.T) {
	for _, tc := range []struct {
		name      string
		policy    corev1.RestartPolicy
		pod       []string
		sandboxes int
		have      []string
		only      bool
		change    func(*corev1.Pod, *World)
		want      string
	}{
		{name: "it is started", policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=run"}, want: "Start d/0, watch a-0"},
		{name: "before the pod is initialized, too", policy: always, pod: []string{"i:i", "a"}, sandboxes: 1, have: []string{"i=run"}, want: "Start d/0, watch i-0"},
		{name: "and before what else is due", policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=1"}, want: "Start d/0, Start a/1"},
		{name: "one that runs is left alone", policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=run", "d=run"}, want: "watch a-0"},
		{name: "one that has ended is not restarted", policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=run", "d=1"}, want: "watch a-0"},
		{name: "nor one that could not be started", policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=run", "d=created"}, want: "watch a-0"},
		{name: "nor in a later sandbox", policy: always, pod: []string{"a"}, sandboxes: 2, have: []string{"a@0=1", "d@0=137", "a#1=run"}, want: "watch a-1"},
		{name: "a sandbox comes first", policy: always, pod: []string{"a"}, want: "CreateSandbox/0, Start a/0"},
		{name: "it keeps no pod alive", policy: never, pod: []string{"a"}, sandboxes: 1, have: []string{"a=0", "d=run"}, want: "KillPod, ended"},
		{name: "nor does one that was not started", policy: never, pod: []string{"a"}, sandboxes: 1, have: []string{"a=0"}, want: "KillPod, ended"},

		{name: "debug does nothing else", only: true, policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=1"}, want: "Start d/0"},
		{name: "debug starts it once", only: true, policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=1", "d=0"}, want: ""},
		{name: "debug makes no sandbox", only: true, policy: always, pod: []string{"a"}, sandboxes: 1, have: []string{"a=1"}, change: notReady, want: "ended"},
		{name: "debug leaves the end of a pod to its owner", only: true, policy: never, pod: []string{"a"}, sandboxes: 1, have: []string{"a=0"}, want: "Start d/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := debugged(statusPod(tc.policy, tc.pod...), "d")
			w := World{Observed: statusObserved(t, tc.sandboxes, tc.have...), Now: someHour, Ephemeral: []string{"d"}, DebugOnly: tc.only}
			if tc.change != nil {
				tc.change(pod, &w)
			}
			if got := decisionText(Next(pod, w), w.Now); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNextLeavesEphemeralAlone checks that Next starts only the ephemeral containers in its input.
func TestNextLeavesEphemeralAlone(t *testing.T) {
	pod := debugged(statusPod(always, "a"), "d")
	d := Next(pod, World{Observed: statusObserved(t, 1, "a=run"), Now: someHour})
	if got := decisionText(d, someHour); got != "watch a-0" {
		t.Errorf("got %q", got)
	}
	if done, waiting := StartedGoal(pod, statusObserved(t, 1, "a=run"), nil); !done {
		t.Errorf("the pod has not started: %s", waiting)
	}
}

func TestStatusEphemeral(t *testing.T) {
	pod := debugged(statusPod(never, "i:i", "a"), "z", "d", "new", "refused")
	in := StatusInput{Observed: statusObserved(t, 1, "i=0", "a=0", "d=7", "z=run"), Now: someHour,
		Waiting: map[string]Waiting{"refused": {Reason: "ErrImagePull"}}}
	s := Status(pod, in)
	type shown struct {
		Name, ID, State string
		Ready, Started  bool
	}
	var got []shown
	for _, c := range s.EphemeralContainerStatuses {
		got = append(got, shown{c.Name, c.ContainerID, stateText(c.State), c.Ready, c.Started != nil})
	}
	want := []shown{
		{"d", "containerd://d-0", "Error 7", false, false},
		{"new", "", "waiting PodInitializing", false, false},
		{"refused", "", "waiting ErrImagePull", false, false},
		{"z", "containerd://z-0", "running", false, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Ephemeral containers that podrun stopped with the pod do not affect the pod's status.
	in.Observed = statusObserved(t, 1, "i=0", "a=0", "d=7", "z=137")
	s = Status(pod, in)
	if s.Phase != corev1.PodSucceeded {
		t.Errorf("phase %s", s.Phase)
	}
	without := Status(statusPod(never, "i:i", "a"), in)
	if diff := cmp.Diff(without.Conditions, s.Conditions); diff != "" {
		t.Errorf("conditions: -without +with:\n%s", diff)
	}
	ended := EndedContainers(pod, s)
	if code, ok := ExitCode(s, ended, ExitAny, ""); code != 0 || !ok || len(ended) != 2 {
		t.Errorf("exit code %d, %t, of %v", code, ok, ended)
	}
	// The status of ephemeral containers of an earlier sandbox comes from the runtime's records.
	gone := Status(pod, StatusInput{Observed: statusObserved(t, 2, "a@0=0", "d@0=7"), Now: someHour})
	if s := gone.EphemeralContainerStatuses[0]; stateText(s.State) != "Error 7" || s.RestartCount != 0 {
		t.Errorf("in a later sandbox: %+v", s)
	}
}

func TestGoalDebugged(t *testing.T) {
	if got := GoalDebugged("d").Debugs(); got != "d" {
		t.Errorf("got %q", got)
	}
	for _, g := range []Goal{GoalStarted, GoalNever, "phase=Running", "condition=Ready"} {
		if got := g.Debugs(); got != "" {
			t.Errorf("%s: got %q", g, got)
		}
	}
	if _, err := ParseGoal(string(GoalDebugged("d"))); err == nil {
		t.Error("it is a value of --wait")
	}
}
