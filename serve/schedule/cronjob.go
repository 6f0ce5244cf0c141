package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/run/lifecycle"
)

// CronJobInput is the input of CronJob.
type CronJobInput struct {
	// CronJob has the API's defaults, the time at which podrun first read it
	// (metadata.creationTimestamp), and its last status. CronJob does not change it.
	CronJob   *batchv1.CronJob
	Timetable Timetable
	// Jobs are the existing Jobs that the CronJob has started.
	Jobs []*batchv1.Job
	// Deleting is the number of other Jobs of the CronJob, whose pods podrun has not removed yet.
	Deleting int
	Now      time.Time
}

// CronJobDecision is the next action for a CronJob.
type CronJobDecision struct {
	// Status is the new status, which assumes that Start has been created.
	Status batchv1.CronJobStatus
	// Delete contains the names of the Jobs to delete: replaced Jobs, and the oldest Jobs that
	// have ended.
	Delete []string
	// Start is the Job to start; nil for none. It has no UID.
	Start *batchv1.Job
	// Warning explains why a scheduled run does not start; "" if there is no warning.
	Warning string
	// Next is the time of the next decision; zero if only a change requires one.
	Next time.Time
}

// nextScheduleDelta is a margin for corrections of the clock, as in the controller.
const nextScheduleDelta = 100 * time.Millisecond

// maxActive limits the active Jobs of a CronJob with concurrencyPolicy Allow, whose Jobs may never
// end, and the Jobs that podrun cannot remove. A cluster has quotas for that.
const maxActive = 100

// CronJob decides which Jobs a CronJob starts and deletes now. It returns an error if the schedule
// never matches a time, for example 31 February; the status is valid even then.
func CronJob(in CronJobInput) (CronJobDecision, error) {
	d := CronJobDecision{Status: *in.CronJob.Status.DeepCopy()}
	in.trackJobs(&d)
	err := in.start(&d)
	in.limitHistory(&d)
	return d, err
}

// trackJobs removes the Jobs that have ended or no longer exist from the active Jobs of the
// status.
func (in CronJobInput) trackJobs(d *CronJobDecision) {
	jobs := map[string]*batchv1.Job{}
	for _, j := range in.Jobs {
		jobs[j.Name] = j
		done := j.Status.CompletionTime
		if !lifecycle.JobHas(j, batchv1.JobComplete) || done == nil {
			continue
		}
		if last := d.Status.LastSuccessfulTime; last == nil || done.After(last.Time) {
			d.Status.LastSuccessfulTime = done.DeepCopy()
		}
	}
	d.Status.Active = slices.DeleteFunc(d.Status.Active, func(r corev1.ObjectReference) bool {
		j := jobs[r.Name]
		return j == nil || j.UID != r.UID || lifecycle.JobFinished(j)
	})
	if len(d.Status.Active) == 0 {
		d.Status.Active = nil
	}
}

// start decides whether the CronJob starts a Job now.
func (in CronJobInput) start(d *CronJobDecision) error {
	c := in.CronJob
	if c.DeletionTimestamp != nil || ptr.Deref(c.Spec.Suspend, false) {
		return nil
	}
	due, missed, err := in.due(true)
	if err != nil {
		return err
	}
	d.Next = in.next(d.Status)
	if due == nil {
		return nil
	}
	if missed > manyMissed {
		d.Warning = "more than 100 runs were missed; podrun starts only the latest: check the clock, or set startingDeadlineSeconds"
	}
	deadline := c.Spec.StartingDeadlineSeconds
	name := JobName(c, *due)
	switch {
	case deadline != nil && due.Add(time.Second*time.Duration(*deadline)).Before(in.Now):
		d.Warning = "missed the run of " + due.UTC().Format(time.RFC3339) + ": startingDeadlineSeconds has passed"
		return nil
	case c.Status.LastScheduleTime.Equal(&metav1.Time{Time: *due}), slices.ContainsFunc(d.Status.Active, func(r corev1.ObjectReference) bool { return r.Name == name }):
		return nil
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(d.Status.Active) > 0:
		return nil
	case len(d.Status.Active) >= maxActive && c.Spec.ConcurrencyPolicy != batchv1.ReplaceConcurrent:
		d.Warning = fmt.Sprintf("did not start the run of %s: %d Jobs of this CronJob are active", due.UTC().Format(time.RFC3339), maxActive)
		return nil
	case in.Deleting >= maxActive:
		d.Warning = fmt.Sprintf("did not start the run of %s: podrun has not removed the pods of %d earlier Jobs of this CronJob", due.UTC().Format(time.RFC3339), maxActive)
		return nil
	}
	if c.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent {
		for _, r := range d.Status.Active {
			d.Delete = append(d.Delete, r.Name)
		}
		d.Status.Active = nil
	}
	if !slices.ContainsFunc(in.Jobs, func(j *batchv1.Job) bool { return j.Name == name }) {
		d.Start = JobOf(c, *due, in.Timetable.Location)
	}
	d.Status.LastScheduleTime = &metav1.Time{Time: *due}
	d.Next = in.next(d.Status)
	return nil
}

// manyMissed is the number of missed runs above which the controller warns.
const manyMissed = 100

// due returns the latest time at which a Job should have been started, if that is after the last
// start; nil if there is none. It also returns an estimate of the number of such times. It does
// not enumerate them, because there may be millions.
func (in CronJobInput) due(withDeadline bool) (latest *time.Time, missed int64, err error) {
	c := in.CronJob
	earliest := in.earliest(c.Status)
	if deadline := c.Spec.StartingDeadlineSeconds; withDeadline && deadline != nil {
		if t := in.Now.Add(-time.Second * time.Duration(*deadline)); t.After(earliest) {
			earliest = t
		}
	}
	first := in.Timetable.Next(earliest)
	second := in.Timetable.Next(first)
	switch {
	case in.Now.Before(first):
		return nil, 0, nil
	case in.Now.Before(second):
		return &first, 0, nil
	}
	interval := int64(second.Sub(first).Round(time.Second).Seconds())
	if interval < 1 {
		// The schedule never matches: Next returns the zero time.
		return nil, 0, errors.New("the schedule never matches a time")
	}
	missed = int64(in.Now.Sub(first).Seconds())/interval + 1
	// The interval may vary, as in 30 6-16/4 * * 1-5. Therefore, begin one interval earlier, and
	// follow the schedule from there.
	begin := first.Add(time.Duration((missed-2)*interval) * time.Second)
	for t := in.Timetable.Next(begin); !t.After(in.Now); t = in.Timetable.Next(t) {
		latest = &t
	}
	return latest, missed, nil
}

// earliest returns the time after which scheduled runs are due.
func (in CronJobInput) earliest(s batchv1.CronJobStatus) time.Time {
	if s.LastScheduleTime != nil {
		return s.LastScheduleTime.Time
	}
	return in.CronJob.CreationTimestamp.Time
}

// next returns the time of the next decision for a CronJob with the status s.
func (in CronJobInput) next(s batchv1.CronJobStatus) time.Time {
	after := in
	after.CronJob = in.CronJob.DeepCopy()
	after.CronJob.Status = s
	latest, missed, err := after.due(false)
	from := in.Now
	switch {
	case err != nil:
	case latest != nil:
		from = *latest
	case missed == 0:
		from = in.earliest(s)
	}
	return in.Timetable.Next(from).Add(nextScheduleDelta)
}

// limitHistory deletes the oldest Jobs that have ended, according to the history limits.
func (in CronJobInput) limitHistory(d *CronJobDecision) {
	oldest := func(condition batchv1.JobConditionType, limit *int32) {
		if limit == nil {
			return
		}
		var ended []*batchv1.Job
		for _, j := range in.Jobs {
			if lifecycle.JobHas(j, condition) && !slices.Contains(d.Delete, j.Name) {
				ended = append(ended, j)
			}
		}
		slices.SortFunc(ended, func(a, b *batchv1.Job) int {
			return cmp.Or(started(a).Compare(started(b)), cmp.Compare(a.Name, b.Name))
		})
		for i := range max(len(ended)-int(*limit), 0) {
			d.Delete = append(d.Delete, ended[i].Name)
		}
	}
	oldest(batchv1.JobComplete, in.CronJob.Spec.SuccessfulJobsHistoryLimit)
	oldest(batchv1.JobFailed, in.CronJob.Spec.FailedJobsHistoryLimit)
}

// started returns when a Job started. A Job that has not started sorts last.
func started(j *batchv1.Job) time.Time {
	if j.Status.StartTime == nil {
		return time.Unix(1<<40, 0)
	}
	return j.Status.StartTime.Time
}

// JobName returns the name of the Job that a CronJob starts for a scheduled time. The controller
// uses the same name. It is always the same for one time, so a CronJob starts only one Job for each
// time.
func JobName(c *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", c.Name, at.Unix()/60)
}

// JobOf returns the Job that a CronJob starts for a scheduled time.
func JobOf(c *batchv1.CronJob, at time.Time, location *time.Location) *batchv1.Job {
	j := lifecycle.JobFromTemplate(c, JobName(c, at))
	j.Annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.In(location).Format(time.RFC3339)
	j.CreationTimestamp = metav1.Time{Time: at}
	return j
}
