package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// progressing is an update that a test judges once a second.
type progressing struct {
	t      *testing.T
	pod    *corev1.Pod
	obs    *Observed
	status corev1.PodStatus
	ready  bool
	p      Progress
	now    time.Time
	limits ProgressLimits
	start  map[string]bool // World.Started
}

func newProgressing(t *testing.T, containers ...corev1.Container) *progressing {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: containers}}
	out := &progressing{t: t, pod: pod, obs: &Observed{Sandboxes: []Sandbox{{ID: "s", Ready: true}}}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		limits: NewProgressLimits(2*time.Minute, 0), p: Progress{}.Resume(), start: map[string]bool{}}
	out.status.Phase = corev1.PodRunning
	for _, c := range containers {
		out.run(c.Name, 0)
	}
	return out
}

// run adds the run of a container with the given restart count.
func (g *progressing) run(name string, restarts uint32) {
	if c := g.obs.Newest(name); c != nil {
		c.State, c.ExitCode = Exited, 7
	}
	g.obs.Put(Container{ID: name + string(rune('0'+restarts)), Name: name, SandboxID: "s", State: Running, Restarts: restarts})
}

// after judges the update each second for a time, until there is a verdict.
func (g *progressing) after(d time.Duration) (v Verdict) {
	for range d / time.Second {
		g.now = g.now.Add(time.Second)
		if v = g.judge(); v.Good || v.Bad() {
			return v
		}
	}
	return v
}

func (g *progressing) judge() (v Verdict) {
	g.p, v = g.p.Judge(g.pod, World{Observed: g.obs, Now: g.now, Started: g.start}, g.status, g.ready, g.limits)
	return v
}

func (g *progressing) want(v Verdict, good bool, reason string) {
	g.t.Helper()
	if v.Good != good || v.Reason != reason {
		g.t.Errorf("good %t, bad because of %q (%s); want %t, %q; unready for %s", v.Good, v.Reason, v.Message, good, reason, g.p.Spent)
	}
}

func app(name string) corev1.Container { return corev1.Container{Name: name, Image: "i"} }

func TestProgressDeadline(t *testing.T) {
	g := newProgressing(t, app("a"))
	g.want(g.after(2*time.Minute), false, "")
	g.want(g.after(2*time.Second), false, ProgressDeadlineExceeded)
	if v := g.judge(); !strings.Contains(v.Message, "2m0s") {
		t.Errorf("message %q", v.Message)
	}
}

func TestProgressReady(t *testing.T) {
	g := newProgressing(t, app("a"))
	g.limits = NewProgressLimits(2*time.Minute, 30*time.Second)
	g.after(time.Minute)
	g.ready = true
	g.want(g.after(29*time.Second), false, "")
	g.ready = false // begins again
	g.after(10 * time.Second)
	g.ready = true
	g.want(g.after(30*time.Second), false, "")
	g.want(g.after(time.Second), true, "")
	if g.p.Spent < 65*time.Second || g.p.Spent > 75*time.Second {
		t.Errorf("unready for %s", g.p.Spent)
	}
	// A pod without probes is not good before it has run for a while.
	g = newProgressing(t, app("a"))
	g.ready = true
	g.want(g.after(9*time.Second), false, "")
	g.want(g.after(2*time.Second), true, "")
}

func TestProgressFlapping(t *testing.T) {
	g := newProgressing(t, app("a"))
	for i := range 1000 {
		g.ready = i%2 == 0
		if v := g.after(5 * time.Second); v.Good || v.Bad() {
			g.want(v, false, ProgressDeadlineExceeded)
			return
		}
	}
	t.Error("no verdict")
}

func TestProgressStartupProbe(t *testing.T) {
	c := app("a")
	c.StartupProbe = &corev1.Probe{}
	g := newProgressing(t, c)
	g.want(g.after(time.Hour), false, "")
	g.start["a0"] = true
	g.want(g.after(2*time.Minute+2*time.Second), false, ProgressDeadlineExceeded)
}

func TestProgressRestarts(t *testing.T) {
	g := newProgressing(t, app("a"), app("b"))
	g.after(time.Second)
	for n := uint32(1); n < badRestarts; n++ {
		g.run("a", n)
		g.run("b", n)
		g.want(g.after(time.Second), false, "")
	}
	g.run("a", badRestarts)
	v := g.after(time.Second)
	g.want(v, false, crashLoopBackOff)
	if !strings.Contains(v.Message, "container a has restarted 3 times; it exited with 7") {
		t.Errorf("message %q", v.Message)
	}
	// Restarts before the update do not count.
	g = newProgressing(t)
	g.pod.Spec.Containers = []corev1.Container{app("a")}
	g.run("a", 100)
	g.want(g.after(time.Second), false, "")
	g.run("a", 102)
	g.want(g.after(time.Second), false, "")
	g.run("a", 103)
	g.want(g.after(time.Second), false, crashLoopBackOff)
}

func TestProgressFailures(t *testing.T) {
	for reason, want := range map[string]string{PostStartHookError: PostStartHookError, CreateContainerConfigError: CreateContainerConfigError, CreateContainerError: CreateContainerError,
		RunContainerError: RunContainerError, "ErrImagePull": "", "ImagePullBackOff": ""} {
		for _, transient := range []bool{false, true} {
			g := newProgressing(t, app("a"))
			g.obs.Newest("a").State = Exited
			g.obs.Kept = g.obs.WithStartFailure("a", Failure{Waiting: Waiting{Reason: reason, Message: "m"}, At: g.now}, transient)
			if transient {
				want = ""
			}
			g.want(g.after(time.Second), false, want)
		}
	}
	g := newProgressing(t, app("a"))
	*g.obs.Newest("a") = Container{ID: "a0", Name: "a", SandboxID: "s", State: Exited, Reason: reasonStartError, ExitCode: 128}
	g.want(g.judge(), false, RunContainerError)
}

func TestProgressPhases(t *testing.T) {
	g := newProgressing(t, app("a"))
	g.status.Phase = corev1.PodSucceeded
	g.want(g.judge(), true, "")
	g.status.Phase = corev1.PodFailed
	g.want(g.judge(), false, failedPod)
	// An eviction and a shutdown do not depend on the definition.
	for _, k := range []Kept{{Evicted: &Evicted{}}, {ShutDown: g.now}} {
		g := newProgressing(t, app("a"))
		g.obs.Kept, g.status.Phase = k, corev1.PodFailed
		g.want(g.after(time.Hour), false, "")
	}
}

func TestProgressResume(t *testing.T) {
	g := newProgressing(t, app("a"))
	g.after(time.Minute)
	for range 3 { // restarts of serve
		g.now = g.now.Add(time.Hour) // does not count
		g.p = g.p.Resume()
		g.want(g.after(10*time.Second), false, "")
	}
	if g.p.Spent < 80*time.Second || g.p.Spent > 95*time.Second {
		t.Errorf("unready for %s", g.p.Spent)
	}
	// With a new sandbox, for example after a boot, the time begins again.
	for _, id := range []string{"s2", "s3"} {
		g.obs.Sandboxes[0].ID = id
		g.want(g.after(110*time.Second), false, "")
	}
	g.obs.Sandboxes[0].ID = "s4"
	g.want(g.judge(), false, startedAgain)
	// A period in which the runtime does not respond.
	g = newProgressing(t, app("a"))
	g.after(time.Minute)
	g.p = g.p.Pause()
	g.now = g.now.Add(time.Hour)
	g.want(g.judge(), false, "")
}
