package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// The controller's back-off between a failure and the next pod.
const (
	firstBackOff   = 10 * time.Second
	longestBackOff = 10 * time.Minute
)

// PodState contains the known facts about one pod of a Job.
type PodState struct {
	// Pod is the pod with its status; nil if the pod does not exist or its status is unknown.
	Pod *corev1.Pod
	// Gone is true if podrun has started the pod, and the pod no longer exists.
	Gone bool
	// Absent is true if the pod does not exist, and podrun does not start it any more.
	Absent bool
}

// JobInput is the input of Job.
type JobInput struct {
	// Record has the Job with the API's defaults. Job does not change it.
	Record *store.JobRecord
	// Pods are the states of the record's pods, by name. A pod that is not in the map has not been
	// observed.
	Pods map[string]PodState
	// Taken reports whether a pod of another object has this name.
	Taken func(name string) bool
	Now   time.Time
}

// JobDecision is the next action for a Job.
type JobDecision struct {
	// Record is the new record.
	Record *store.JobRecord
	// Delete is true if the Job must be deleted because ttlSecondsAfterFinished has passed.
	Delete bool
	// Next is the time of the next decision; zero if only a change requires one.
	Next time.Time
}

// Job decides which pods a Job runs and removes now. It follows syncJob of the Job controller,
// except that at most one pod of a Job is active (parallelism 1).
func Job(in JobInput) JobDecision {
	d := jobDecision{in: in, JobDecision: JobDecision{Record: in.Record.DeepCopy()}}
	d.job = d.Record.Job
	d.status = &d.Record.Job.Status
	switch {
	case d.Record.Deleting():
		d.stopAll()
		d.Record.Pods = d.withoutStopped()
	case lifecycle.JobFinished(d.job):
		d.afterFinish()
	case ptr.Deref(d.job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName:
	default:
		d.sync()
	}
	return d.JobDecision
}

// jobDecision is a decision in progress.
type jobDecision struct {
	in JobInput
	JobDecision
	job    *batchv1.Job
	status *batchv1.JobStatus
	// failure is the message of the podFailurePolicy rule that makes the Job fail.
	failure string
}

// sync decides for a Job that has not ended.
func (d *jobDecision) sync() {
	d.countEnded()
	suspended := ptr.Deref(d.job.Spec.Suspend, false)
	if d.status.StartTime == nil && !suspended {
		d.status.StartTime = d.now()
	}
	if reason, message := d.failed(); reason != "" {
		d.fail(reason, message)
	} else {
		d.Record.Pods = d.withoutStopped()
		d.manage()
		if d.complete() {
			d.condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonCompletionsReached, completionsReached)
			d.condition(batchv1.JobComplete, corev1.ConditionTrue, batchv1.JobReasonCompletionsReached, completionsReached)
			d.status.CompletionTime = d.now()
		} else {
			d.noteSuspension(suspended)
		}
	}
	d.status.Active, d.status.Ready = d.active(), ptr.To(d.ready())
	if lifecycle.JobFinished(d.job) {
		d.afterFinish()
	}
}

const completionsReached = "Reached expected number of succeeded pods"

// countEnded counts the pods that have ended since the last decision.
func (d *jobDecision) countEnded() {
	succeeded := false
	for i := range d.Record.Pods {
		p := &d.Record.Pods[i]
		if p.State != store.JobPodActive {
			continue
		}
		switch seen := d.in.Pods[p.Name]; {
		case seen.Gone:
			d.countFailed(p, nil)
		case seen.Pod == nil:
		case seen.Pod.Status.Phase == corev1.PodSucceeded:
			p.State, succeeded = store.JobPodSucceeded, true
			d.status.Succeeded++
			d.noteIndex(p)
		case seen.Pod.Status.Phase == corev1.PodFailed:
			d.countFailed(p, seen.Pod)
		}
	}
	if succeeded {
		// Failures are consecutive, because at most one pod is active.
		d.Record.Failures = 0
		d.Record.LastFailure = nil
	}
}

// countFailed counts a failed pod, unless podFailurePolicy ignores it. pod is nil if the pod does
// not exist.
func (d *jobDecision) countFailed(p *store.JobPod, pod *corev1.Pod) {
	p.State = store.JobPodFailed
	d.Record.Failures++
	at := metav1.NewTime(finishTime(pod, d.in.Now))
	d.Record.LastFailure = &at
	counts := true
	if pod != nil && d.job.Spec.PodFailurePolicy != nil {
		var message string
		if message, counts = matchPolicy(d.job.Spec.PodFailurePolicy, pod); message != "" && d.failure == "" {
			d.failure = message
		}
	}
	if counts {
		d.status.Failed++
	}
}

// failed returns why the Job has failed; "" if it has not.
func (d *jobDecision) failed() (reason, message string) {
	if c := lifecycle.JobCondition(d.job, batchv1.JobFailureTarget); c != nil && c.Status == corev1.ConditionTrue {
		return c.Reason, c.Message
	}
	deadline := d.job.Spec.ActiveDeadlineSeconds
	if deadline != nil && !ptr.Deref(d.job.Spec.Suspend, false) {
		end := d.status.StartTime.Add(time.Duration(*deadline) * time.Second)
		if !d.in.Now.Before(end) {
			reason, message = batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
		} else {
			d.wake(end)
		}
	}
	switch {
	case d.failure != "":
		return batchv1.JobReasonPodFailurePolicy, d.failure
	case d.status.Failed > *d.job.Spec.BackoffLimit || d.restartsExceedLimit():
		return batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
	}
	return reason, message
}

// restartsExceedLimit reports whether the containers of active pods were restarted so often that
// the Job fails. It applies only to restartPolicy OnFailure.
func (d *jobDecision) restartsExceedLimit() bool {
	if d.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	n := int32(0)
	for _, p := range d.Record.Pods {
		pod := d.in.Pods[p.Name].Pod
		if pod == nil || pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			n += c.RestartCount
		}
	}
	if *d.job.Spec.BackoffLimit == 0 {
		return n > 0
	}
	return n >= *d.job.Spec.BackoffLimit
}

// fail makes the Job fail: at once if none of its pods is running, otherwise when its pods are
// removed.
func (d *jobDecision) fail(reason, message string) {
	d.condition(batchv1.JobFailureTarget, corev1.ConditionTrue, reason, message)
	// A pod that is removed before it has ended counts as failed.
	d.status.Failed += d.active()
	d.stopAll()
	d.Record.Pods = d.withoutStopped()
	if d.stopping() == 0 {
		d.condition(batchv1.JobFailed, corev1.ConditionTrue, reason, message)
	}
}

// manage stops the active pods if the Job is suspended or has enough completions. Otherwise, it adds
// the next pod if one is missing.
func (d *jobDecision) manage() {
	spec := &d.job.Spec
	if ptr.Deref(spec.Suspend, false) {
		d.stopAll()
		d.Record.Pods = d.withoutStopped()
		return
	}
	active := d.active()
	want := min(*spec.Parallelism, 1)
	switch {
	case spec.Completions == nil && d.status.Succeeded > 0:
		want = active
	case spec.Completions != nil:
		want = max(min(*spec.Completions-d.status.Succeeded, want), 0)
	}
	switch {
	case active > want:
		d.stopAll()
		d.Record.Pods = d.withoutStopped()
	case active < want && d.stopping() == 0:
		if ready := d.backOffEnd(); ready.After(d.in.Now) {
			d.wake(ready)
			return
		}
		d.addPod()
	}
}

// backOffEnd returns the end of the back-off after failures. No pod is added before it.
func (d *jobDecision) backOffEnd() time.Time {
	// If the clock was set back since the failure, the back-off might last for years. The controller forgets
	// failures when it restarts; podrun does not.
	if d.Record.Failures == 0 || d.Record.LastFailure.After(d.in.Now) {
		return time.Time{}
	}
	return d.Record.LastFailure.Add(wait.Nth(int(d.Record.Failures), firstBackOff, longestBackOff))
}

// addPod adds a pod to the record. The pod's name depends only on the record.
func (d *jobDecision) addPod() {
	p := store.JobPod{Name: d.job.Name, State: store.JobPodActive}
	if d.Record.Attempts > 0 || len(p.Name) > maxPodName || d.taken(p.Name) {
		p.Name = podName(d.job, d.Record.Attempts)
	}
	// In a Job with a thousand pods, hashes of five characters may collide.
	for i := 0; i < maxNames && d.taken(p.Name); i++ {
		d.Record.Attempts++
		p.Name = podName(d.job, d.Record.Attempts)
	}
	d.Record.Attempts++
	if indexed(d.job) {
		p.Index = ptr.To(d.firstPendingIndex())
	}
	d.Record.Pods = append(d.Record.Pods, p)
}

// maxNames is the maximum number of taken names that addPod skips.
const maxNames = 100

// taken reports whether another pod, of the Job or of another object, has this name.
func (d *jobDecision) taken(name string) bool {
	return slices.ContainsFunc(d.Record.Pods, func(p store.JobPod) bool { return p.Name == name }) || d.in.Taken != nil && d.in.Taken(name)
}

// maxPodName is the maximum length of a host name: a pod's name is also its host name.
const maxPodName = 63

// podName returns the name of a Job's pod for an attempt.
func podName(j *batchv1.Job, attempt int32) string {
	sum := sha256.Sum256([]byte(string(j.UID) + "/" + strconv.Itoa(int(attempt))))
	const suffix = 5
	base := j.Name
	if len(base) > maxPodName-suffix-1 {
		base = base[:maxPodName-suffix-1]
	}
	return strings.TrimRight(base, "-.") + "-" + hex.EncodeToString(sum[:])[:suffix]
}

func (d *jobDecision) complete() bool {
	if d.active() > 0 || d.stopping() > 0 {
		return false
	}
	if d.job.Spec.Completions == nil {
		return d.status.Succeeded > 0
	}
	return d.status.Succeeded >= *d.job.Spec.Completions
}

// noteSuspension sets the condition Suspended. When a Job is resumed, its start time is set again.
func (d *jobDecision) noteSuspension(suspended bool) {
	c := lifecycle.JobCondition(d.job, batchv1.JobSuspended)
	switch {
	case suspended && (c == nil || c.Status != corev1.ConditionTrue):
		d.condition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended")
		d.status.StartTime = nil
	case !suspended && c != nil && c.Status != corev1.ConditionFalse:
		d.condition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed")
		d.status.StartTime = d.now()
	}
}

// afterFinish deletes a Job that has ended once ttlSecondsAfterFinished has passed.
func (d *jobDecision) afterFinish() {
	d.Record.Pods = d.withoutStopped()
	ttl := d.job.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return
	}
	end := lifecycle.JobFinishedAt(d.job).Add(time.Duration(*ttl) * time.Second)
	if d.Delete = !d.in.Now.Before(end); !d.Delete {
		d.wake(end)
	}
}

// stopAll makes podrun remove the Job's active pods or, if the Job is being deleted, all of its pods.
func (d *jobDecision) stopAll() {
	for i := range d.Record.Pods {
		if p := &d.Record.Pods[i]; p.State == store.JobPodActive || d.Record.Deleting() {
			p.State = store.JobPodStopping
		}
	}
}

// keptPods is the number of ended pods that podrun keeps of a Job. A cluster, too, removes
// ended pods above a threshold. Without a limit, a Job with many completions or ignored failures would
// fill the disk, and its record would become too large.
const keptPods = 500

// withoutStopped returns the pods without those that podrun has removed, and without the oldest of the ended
// ones, which the supervisor then removes.
func (d *jobDecision) withoutStopped() []store.JobPod {
	excess := d.count(store.JobPodSucceeded) + d.count(store.JobPodFailed) - keptPods
	return slices.DeleteFunc(slices.Clone(d.Record.Pods), func(p store.JobPod) bool {
		switch p.State {
		case store.JobPodStopping:
			return d.in.Pods[p.Name].Absent
		case store.JobPodSucceeded, store.JobPodFailed:
			excess--
			return excess >= 0
		}
		return false
	})
}

func (d *jobDecision) count(state store.JobPodState) (n int32) {
	for _, p := range d.Record.Pods {
		if p.State == state {
			n++
		}
	}
	return n
}

func (d *jobDecision) active() int32   { return d.count(store.JobPodActive) }
func (d *jobDecision) stopping() int32 { return d.count(store.JobPodStopping) }

// ready returns the number of active pods that are ready.
func (d *jobDecision) ready() (n int32) {
	for _, p := range d.Record.Pods {
		pod := d.in.Pods[p.Name].Pod
		if p.State != store.JobPodActive || pod == nil {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

// wake sets the time of the next decision, unless an earlier time is set.
func (d *jobDecision) wake(at time.Time) {
	if d.Next.IsZero() || at.Before(d.Next) {
		d.Next = at
	}
}

func (d *jobDecision) now() *metav1.Time { return ptr.To(metav1.NewTime(d.in.Now)) }

// condition sets a condition of the Job.
func (d *jobDecision) condition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) {
	c := lifecycle.JobCondition(d.job, kind)
	if c == nil {
		d.status.Conditions = append(d.status.Conditions, batchv1.JobCondition{Type: kind})
		c = &d.status.Conditions[len(d.status.Conditions)-1]
	} else if c.Status == status && c.Reason == reason {
		return
	}
	c.Status = status
	c.Reason = reason
	c.Message = message
	c.LastProbeTime = *d.now()
	c.LastTransitionTime = *d.now()
}
