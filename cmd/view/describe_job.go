package view

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// describeJob writes the lines that 'kubectl describe job' (v1.36) prints, and the conditions, because podrun has
// no events that say why a Job failed.
func describeJob(d *Description, j *batchv1.Job) {
	d.row(0, "Name:", j.Name)
	d.row(0, "Namespace:", j.Namespace)
	d.row(0, "Selector:", selectorText(j.Spec.Selector))
	d.labelsAndAnnotations(&j.ObjectMeta)
	d.controller(j)
	describeJobSpec(d, &j.Spec)
	describeJobTimes(d, &j.Status)
	if s := j.Spec.ActiveDeadlineSeconds; s != nil {
		d.row(0, "Active Deadline Seconds:", strconv.FormatInt(*s, 10)+"s")
	}
	active := fmt.Sprintf("%d Active", j.Status.Active)
	if n := j.Status.Ready; n != nil {
		active += fmt.Sprintf(" (%d Ready)", *n)
	}
	d.row(0, "Pods Statuses:", fmt.Sprintf("%s / %d Succeeded / %d Failed", active, j.Status.Succeeded, j.Status.Failed))
	if m := j.Spec.CompletionMode; m != nil && *m == batchv1.IndexedCompletion {
		d.row(0, "Completed Indexes:", shownIndexes(j.Status.CompletedIndexes))
	}
	d.podTemplate(&j.Spec.Template)
	if len(j.Status.Conditions) == 0 {
		return
	}
	d.row(0, "Conditions:")
	d.row(1, "Type", "Status", "Reason", "Message")
	d.row(1, "----", "------", "------", "-------")
	for _, c := range j.Status.Conditions {
		d.row(1, string(c.Type), string(c.Status), c.Reason, c.Message)
	}
}

// describeJobSpec writes the fields of a Job's specification that precede its times.
func describeJobSpec(d *Description, s *batchv1.JobSpec) {
	if s.Parallelism != nil {
		d.row(0, "Parallelism:", number(s.Parallelism))
	}
	d.row(0, "Completions:", number(s.Completions))
	if s.CompletionMode != nil {
		d.row(0, "Completion Mode:", string(*s.CompletionMode))
	}
	if s.Suspend != nil {
		d.row(0, "Suspend:", strconv.FormatBool(*s.Suspend))
	}
	if s.BackoffLimit != nil {
		d.row(0, "Backoff Limit:", number(s.BackoffLimit))
	}
	if s.TTLSecondsAfterFinished != nil {
		d.row(0, "TTL Seconds After Finished:", number(s.TTLSecondsAfterFinished))
	}
}

func describeJobTimes(d *Description, s *batchv1.JobStatus) {
	if s.StartTime != nil {
		d.row(0, "Start Time:", d.time(*s.StartTime))
	}
	if s.CompletionTime != nil {
		d.row(0, "Completed At:", d.time(*s.CompletionTime))
	}
	if s.StartTime != nil && s.CompletionTime != nil {
		d.row(0, "Duration:", duration.HumanDuration(s.CompletionTime.Sub(s.StartTime.Time)))
	}
}

// number returns a number, or <unset> for nil.
func number(n *int32) string {
	if n == nil {
		return "<unset>"
	}
	return strconv.Itoa(int(*n))
}

// longestIndexes is the length in bytes of a list of completed indexes after which kubectl cuts it, at the
// next comma.
const longestIndexes = 50

func shownIndexes(indexes string) string {
	if len(indexes) > longestIndexes {
		if end := strings.IndexByte(indexes[longestIndexes:], ','); end >= 0 {
			return indexes[:longestIndexes+end+1] + "..."
		}
	}
	return OrNone(indexes)
}

// describeCronJob writes the lines that 'kubectl describe cronjob' (v1.36) prints.
func describeCronJob(d *Description, c *batchv1.CronJob) {
	d.metadata(&c.ObjectMeta)
	s := &c.Spec
	suspend, zone, deadline, last := "<unset>", "<unset>", "<unset>", "<unset>"
	if s.Suspend != nil {
		suspend = map[bool]string{true: "True", false: "False"}[*s.Suspend]
	}
	if s.TimeZone != nil {
		zone = *s.TimeZone
	}
	if s.StartingDeadlineSeconds != nil {
		deadline = strconv.FormatInt(*s.StartingDeadlineSeconds, 10) + "s"
	}
	if t := c.Status.LastScheduleTime; t != nil {
		last = d.time(*t)
	}
	d.row(0, "Schedule:", s.Schedule)
	d.row(0, "Concurrency Policy:", string(s.ConcurrencyPolicy))
	d.row(0, "Suspend:", suspend)
	d.row(0, "Time Zone:", zone)
	d.row(0, "Successful Job History Limit:", number(s.SuccessfulJobsHistoryLimit))
	d.row(0, "Failed Job History Limit:", number(s.FailedJobsHistoryLimit))
	d.row(0, "Starting Deadline Seconds:", deadline)
	describeJobTemplate(d, &s.JobTemplate.Spec)
	d.row(0, "Last Schedule Time:", last)
	var active []string
	for _, a := range c.Status.Active {
		active = append(active, a.Name)
	}
	d.row(0, "Active Jobs:", OrNone(strings.Join(active, ", ")))
}

// describeJobTemplate writes the template of a CronJob's Jobs.
func describeJobTemplate(d *Description, s *batchv1.JobSpec) {
	selector := "<unset>"
	if s.Selector != nil {
		selector = selectorText(s.Selector)
	}
	d.row(0, "Selector:", selector)
	d.row(0, "Parallelism:", number(s.Parallelism))
	d.row(0, "Completions:", number(s.Completions))
	if n := s.ActiveDeadlineSeconds; n != nil {
		d.row(0, "Active Deadline Seconds:", strconv.FormatInt(*n, 10)+"s")
	}
	d.podTemplate(&s.Template)
}
