package cmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// job writes the fields of a Job that 'kubectl describe job' (v1.36) prints, with the conditions.
func (d *description) job(j *batchv1.Job) {
	d.metadata(&j.ObjectMeta)
	if owner := metav1.GetControllerOf(j); owner != nil {
		d.row(0, "Controlled By:", owner.Kind+"/"+owner.Name)
	}
	s := &j.Spec
	d.jobSpec(s)
	d.row(0, "Suspend:", strconv.FormatBool(s.Suspend != nil && *s.Suspend))
	if t := j.Status.StartTime; t != nil {
		d.row(0, "Start Time:", t.Format(time.RFC1123Z))
		if end := j.Status.CompletionTime; end != nil {
			d.row(0, "Completed At:", end.Format(time.RFC1123Z))
			d.row(0, "Duration:", duration.HumanDuration(end.Sub(t.Time)))
		}
	}
	d.row(0, "Pods Statuses:", fmt.Sprintf("%d Active / %d Succeeded / %d Failed", j.Status.Active, j.Status.Succeeded, j.Status.Failed))
	if j.Status.CompletedIndexes != "" {
		d.row(0, "Completed Indexes:", j.Status.CompletedIndexes)
	}
	d.row(0, "Images:", containerImages(&s.Template.Spec))
	if len(j.Status.Conditions) == 0 {
		return
	}
	d.row(0, "Conditions:")
	d.row(1, "Type", "Status", "Reason", "Message")
	for _, c := range j.Status.Conditions {
		d.row(1, string(c.Type), string(c.Status), c.Reason, c.Message)
	}
}

// jobSpec writes the fields of a Job's specification.
func (d *description) jobSpec(s *batchv1.JobSpec) {
	number := func(n *int32) string {
		if n == nil {
			return "<unset>"
		}
		return strconv.Itoa(int(*n))
	}
	d.row(0, "Parallelism:", number(s.Parallelism))
	d.row(0, "Completions:", number(s.Completions))
	d.row(0, "Backoff Limit:", number(s.BackoffLimit))
	if s.CompletionMode != nil {
		d.row(0, "Completion Mode:", string(*s.CompletionMode))
	}
	if s.ActiveDeadlineSeconds != nil {
		d.row(0, "Active Deadline Seconds:", strconv.FormatInt(*s.ActiveDeadlineSeconds, 10)+"s")
	}
	if s.TTLSecondsAfterFinished != nil {
		d.row(0, "TTL After Finished:", strconv.Itoa(int(*s.TTLSecondsAfterFinished))+"s")
	}
}

// cronJob writes the fields of a CronJob that 'kubectl describe cronjob' (v1.36) prints.
func (d *description) cronJob(c *batchv1.CronJob) {
	d.metadata(&c.ObjectMeta)
	s := &c.Spec
	zone := "<unset>"
	if s.TimeZone != nil {
		zone = *s.TimeZone
	}
	d.row(0, "Schedule:", s.Schedule)
	d.row(0, "Time Zone:", zone)
	d.row(0, "Concurrency Policy:", string(s.ConcurrencyPolicy))
	d.row(0, "Suspend:", strconv.FormatBool(s.Suspend != nil && *s.Suspend))
	limit := func(n *int32) string {
		if n == nil {
			return "<unset>"
		}
		return strconv.Itoa(int(*n))
	}
	d.row(0, "Successful Job History Limit:", limit(s.SuccessfulJobsHistoryLimit))
	d.row(0, "Failed Job History Limit:", limit(s.FailedJobsHistoryLimit))
	deadline := "<unset>"
	if s.StartingDeadlineSeconds != nil {
		deadline = strconv.FormatInt(*s.StartingDeadlineSeconds, 10) + "s"
	}
	d.row(0, "Starting Deadline Seconds:", deadline)
	d.jobSpec(&s.JobTemplate.Spec)
	d.row(0, "Images:", containerImages(&s.JobTemplate.Spec.Template.Spec))
	last := "<unset>"
	if t := c.Status.LastScheduleTime; t != nil {
		last = t.Format(time.RFC1123Z)
	}
	d.row(0, "Last Schedule Time:", last)
	var active []string
	for _, a := range c.Status.Active {
		active = append(active, a.Name)
	}
	d.row(0, "Active Jobs:", orNone(strings.Join(active, ", ")))
}
