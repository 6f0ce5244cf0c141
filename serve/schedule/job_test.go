package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// jobStep is one decision about a Job: the clock, what has happened to its newest pod, and the state of the
// Job after the decision.
type jobStep struct {
	after  time.Duration // since the previous step; negative if the clock was set back
	phase  corev1.PodPhase
	gone   bool
	absent bool
	change func(*batchv1.JobSpec)
	want   string
}

func TestJobSteps(t *testing.T) {
	const s, h = time.Second, time.Hour
	for name, c := range map[string]struct {
		spec  batchv1.JobSpec
		steps []jobStep
	}{
		"succeeds": {steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodRunning, want: "1 active"},
			{after: s, phase: corev1.PodSucceeded, want: "1 succeeded, Complete"}}},
		"completions": {spec: batchv1.JobSpec{Completions: ptr.To(int32(2)), Parallelism: ptr.To(int32(2))}, steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodSucceeded, want: "1 active, 1 succeeded"},
			{after: s, phase: corev1.PodSucceeded, want: "2 succeeded, Complete"}}},
		"retries after the back-off": {steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodFailed, want: "1 failed, next in 10s"},
			{after: 9 * s, want: "1 failed, next in 1s"},
			{after: s, want: "1 active, 1 failed"},
			{after: s, phase: corev1.PodFailed, want: "2 failed, next in 20s"},
			{after: 20 * s, want: "1 active, 2 failed"},
			{after: s, phase: corev1.PodSucceeded, want: "1 succeeded, 2 failed, Complete"}}},
		"backoffLimit": {spec: batchv1.JobSpec{BackoffLimit: ptr.To(int32(0))}, steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodFailed, want: "1 failed, FailureTarget, Failed BackoffLimitExceeded"}}},
		"its pod was deleted": {steps: []jobStep{
			{want: "1 active"},
			{after: s, gone: true, want: "1 failed, next in 10s"}}},
		"activeDeadlineSeconds": {spec: batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64(60))}, steps: []jobStep{
			{want: "1 active, next in 1m0s"},
			{after: 59 * s, phase: corev1.PodRunning, want: "1 active, next in 1s"},
			{after: s, phase: corev1.PodRunning, want: "1 stopping, 1 failed, FailureTarget"},
			{after: s, absent: true, want: "1 failed, FailureTarget, Failed DeadlineExceeded"}}},
		"the clock jumps forward: the deadline has passed": {spec: batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64(60))}, steps: []jobStep{
			{want: "1 active, next in 1m0s"},
			{after: 24 * h, phase: corev1.PodRunning, want: "1 stopping, 1 failed, FailureTarget"}}},
		"the clock is set back: startTime is in the future, and the deadline counts from it": {spec: batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64(60))}, steps: []jobStep{
			{want: "1 active, next in 1m0s"},
			{after: -2 * h, phase: corev1.PodRunning, want: "1 active, next in 2h1m0s"},
			{after: s, phase: corev1.PodSucceeded, want: "1 succeeded, Complete, next in 2h0m59s"}}},
		"the clock is set back after a failure: no back-off": {steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodFailed, want: "1 failed, next in 10s"},
			{after: -h, want: "1 active, 1 failed"}}},
		"the clock is set back after the end: the Job stays until its time": {spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To(int32(60))}, steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodSucceeded, want: "1 succeeded, Complete, next in 1m0s"},
			{after: -h, want: "1 succeeded, Complete, next in 1h1m0s"},
			{after: h + 60*s, want: "1 succeeded, Complete, delete"}}},
		"the clock jumps forward after the end": {spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To(int32(60))}, steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodSucceeded, want: "1 succeeded, Complete, next in 1m0s"},
			{after: 1000 * h, want: "1 succeeded, Complete, delete"}}},
		"suspended and resumed: the deadline begins again": {spec: batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64(60))}, steps: []jobStep{
			{want: "1 active, next in 1m0s"},
			{after: 30 * s, phase: corev1.PodRunning, change: func(j *batchv1.JobSpec) { j.Suspend = ptr.To(true) }, want: "1 stopping, Suspended"},
			{after: s, absent: true, want: "Suspended"},
			{after: h, change: func(j *batchv1.JobSpec) { j.Suspend = ptr.To(false) }, want: "1 active, next in 1m0s"}}},
		"a stopped pod that still exists": {steps: []jobStep{
			{want: "1 active"},
			{after: s, phase: corev1.PodRunning, change: func(j *batchv1.JobSpec) { j.Suspend = ptr.To(true) }, want: "1 stopping, Suspended"},
			{after: s, phase: corev1.PodRunning, change: func(j *batchv1.JobSpec) { j.Suspend = ptr.To(false) }, want: "1 stopping"},
			{after: s, absent: true, want: "1 active"}}},
		"no parallelism": {spec: batchv1.JobSpec{Parallelism: ptr.To(int32(0))}, steps: []jobStep{{want: ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "u"}, Spec: c.spec}
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			r, now := &store.JobRecord{Job: j}, at("2026-03-01T00:00:00Z")
			for i, step := range c.steps {
				now = now.Add(step.after)
				in := JobInput{Record: r, Now: now, Pods: map[string]PodState{}}
				if n := len(r.Pods); n > 0 {
					state := PodState{Gone: step.gone, Absent: step.absent}
					if step.phase != "" {
						state.Pod = &corev1.Pod{Status: corev1.PodStatus{Phase: step.phase}}
					}
					in.Pods[r.Pods[n-1].Name] = state
				}
				r.Job = manifest.WithDefaults(r.Job)
				if step.change != nil {
					step.change(&r.Job.Spec)
				}
				d := Job(in)
				if r = d.Record; jobText(d, now) != step.want {
					t.Fatalf("step %d: %q, want %q", i, jobText(d, now), step.want)
				}
			}
		})
	}
}

// jobText returns the state of a Job after a decision in a short form.
func jobText(d JobDecision, now time.Time) string {
	var out []string
	count := func(what string, n int32) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	states := map[store.JobPodState]int32{}
	for _, p := range d.Record.Pods {
		states[p.State]++
	}
	status := d.Record.Job.Status
	count("active", status.Active)
	count("stopping", states[store.JobPodStopping])
	count("succeeded", status.Succeeded)
	count("failed", status.Failed)
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobComplete, batchv1.JobFailureTarget, batchv1.JobFailed} {
		if c := lifecycle.JobCondition(d.Record.Job, kind); c != nil && c.Status == corev1.ConditionTrue {
			text := string(kind)
			if kind == batchv1.JobFailed {
				text += " " + c.Reason
			}
			out = append(out, text)
		}
	}
	if d.Delete {
		out = append(out, "delete")
	}
	if !d.Next.IsZero() {
		out = append(out, "next in "+d.Next.Sub(now).String())
	}
	return strings.Join(out, ", ")
}
