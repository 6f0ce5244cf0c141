package lifecycle

import (
	"cmp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestFindUnsettled checks when a command may report running containers as ready. In these tests,
// each run of a container lasts half a minute unless the test changes it.
func TestFindUnsettled(t *testing.T) {
	after := func(d time.Duration) func(*corev1.Pod, *Observed) time.Time {
		return func(_ *corev1.Pod, o *Observed) time.Time { return o.Newest("a").StartedAt.Add(d) }
	}
	ran := func(d time.Duration, then func(*corev1.Pod, *Observed) time.Time) func(*corev1.Pod, *Observed) time.Time {
		return func(p *corev1.Pod, o *Observed) time.Time {
			last := o.Previous(o.Newest("a"))
			last.StartedAt = last.FinishedAt.Add(-d)
			return then(p, o)
		}
	}
	probed := func(then func(*corev1.Pod, *Observed) time.Time) func(*corev1.Pod, *Observed) time.Time {
		return func(p *corev1.Pod, o *Observed) time.Time {
			p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
			return then(p, o)
		}
	}
	for _, tc := range []struct {
		name, pod, have string
		boxes           int
		now             func(*corev1.Pod, *Observed) time.Time
		age             time.Duration // age of the observation
		exited          bool          // the container's process has exited
		begun           time.Duration // how long the command has run
		left            time.Duration // how much longer the container must run; 0 if it has run long enough
		why             string
	}{
		{name: "just started", have: "a=run", now: after(0), left: time.Second, why: "container a has just started"},
		{name: "started a second ago", have: "a=run", now: after(time.Second)},
		{name: "its probe decides", have: "a=run", now: probed(after(0))},
		{name: "an init container", pod: "i:i a", have: "i=0 a=run", now: after(time.Second)},
		{name: "a sidecar", pod: "s:s a", have: "a=run s=run", now: after(time.Minute), left: time.Second, why: "container s has just started"},
		{name: "it exited at once", have: "a=3 a#1=run", now: ran(0, after(0)), left: time.Second, why: "container a was restarted and may exit again"},
		{name: "it had run for 4 s", have: "a=3 a#1=run", now: ran(4*time.Second, after(2*time.Second)), left: 3 * time.Second, why: "container a was restarted and may exit again"},
		{name: "it had run for 4 s, with a probe", have: "a=3 a#1=run", now: probed(ran(4*time.Second, after(2*time.Second))), left: 3 * time.Second, why: "container a was restarted and may exit again"},
		{name: "it has run longer than before", have: "a=3 a#1=run", now: ran(4*time.Second, after(5*time.Second))},
		{name: "it exited with 0", have: "a=0 a#1=run", now: ran(0, after(0)), left: time.Second, why: "container a was restarted and may exit again"},
		{name: "it had run for half a minute", have: "a=3 a#1=run", now: after(4 * time.Second), left: 6 * time.Second, why: "container a was restarted and may exit again"},
		{name: "ten seconds are enough", have: "a=3 a#1=run", now: after(10 * time.Second)},
		{name: "it had reset its back-off", have: "a=3 a#1=run", now: ran(10*time.Minute, after(time.Second))},
		{name: "restarted with its sandbox", boxes: 2, have: "a@0=137 a@1#1=run", now: after(time.Second)},
		{name: "another definition", have: "a=3 a#1=run", now: func(p *corev1.Pod, o *Observed) time.Time {
			o.Newest("a").Hash = "new"
			return after(time.Second)(p, o)
		}},
		{name: "observed before it had run long enough", have: "a=run", now: after(5 * time.Second), age: 5 * time.Second, left: -4 * time.Second, why: "container a has just started"},
		{name: "observed when it had run long enough", have: "a=run", now: after(5 * time.Second), age: 4 * time.Second},
		{name: "the runtime reports the exit late", have: "a=run", now: after(5 * time.Second), exited: true, begun: 5 * time.Second, left: 5 * time.Second, why: "the process of container a has exited, and the runtime has not reported it yet"},
		{name: "the runtime reports the exit after a long run late", have: "a=run", now: after(time.Hour), exited: true, begun: time.Second, left: 9 * time.Second, why: "the process of container a has exited, and the runtime has not reported it yet"},
		{name: "a wrong pid does not count forever", have: "a=run", now: after(10 * time.Second), exited: true, begun: 10 * time.Second},
		{name: "the clock was set back", have: "a=run", now: after(-time.Hour)},
		{name: "not running", have: "a=3", now: after(0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod, obs := statusPod(always, strings.Fields(cmp.Or(tc.pod, "a"))...), statusObserved(t, max(tc.boxes, 1), strings.Fields(tc.have)...)
			now := tc.now(pod, obs)
			obs.ReadAt = now.Add(-tc.age)
			obs.Newest("a").ProcessExited = tc.exited
			got := FindUnsettled(pod, obs, now.Add(-tc.begun), now)
			if got == nil {
				got = &Unsettled{Until: now}
			}
			if left := got.Until.Sub(now); left != tc.left || got.Why != tc.why {
				t.Errorf("%s, %q; want %s, %q", left, got.Why, tc.left, tc.why)
			}
		})
	}
}

func TestExits(t *testing.T) {
	for _, tc := range []struct{ pod, have, want, first string }{
		{pod: "a b", have: "a=run b=run"},
		{pod: "a b", have: "a=4 b=run", want: "container a exited with 4 (Error)", first: "a"},
		{pod: "a b c", have: "a=0 b=4 c=run", want: "container a exited with 0 (Completed); container b exited with 4 (Error)", first: "b"},
		{pod: "a b", have: "a=run b=0", want: "container b exited with 0 (Completed)", first: "b"},
		{pod: "a b", have: "a=0 b=4", want: "container a exited with 0 (Completed); container b exited with 4 (Error)"},
		{pod: "i:i a", have: "i=0 a=run"},
		{pod: "i:i a", have: "i=5", want: "container i exited with 5 (Error)"},
		{pod: "a b", have: "a=3 a#1=run b=run", want: "container a exited with 3 (Error), 1 restart"},
	} {
		pod := statusPod(never, strings.Fields(tc.pod)...)
		status := Status(pod, StatusInput{Observed: statusObserved(t, 1, strings.Fields(tc.have)...), Now: someHour})
		if got := Exits(status); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.have, got, tc.want)
		}
		if got := ExitedFirst(pod, status); got != tc.first {
			t.Errorf("%s: the first is %q, want %q", tc.have, got, tc.first)
		}
	}
	crashing := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", RestartCount: 4,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}}
	if got, want := Exits(crashing), "container a exited with 3 (Error), 4 restarts, CrashLoopBackOff"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
