package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest"
)

// JobRecord is the record of a Job that podrun serve runs (docs/design/schedules.md).
type JobRecord struct {
	// Job is the Job as its author wrote it, with its UID, creation time and status. Its
	// metadata.deletionTimestamp is set if it must be deleted.
	Job *batchv1.Job `json:"job"`
	// Path is the source.File that defines the Job; "" if a CronJob or a command created it.
	Path string `json:"path,omitempty"`
	// Deleted is true for a Job that was deleted although its file still defines it. podrun keeps the
	// record so that it does not run the Job again.
	Deleted bool `json:"deleted,omitempty"`
	// Pods are the pods that podrun has created for the Job and not removed, in the order of their creation.
	Pods []JobPod `json:"pods,omitempty"`
	// Attempts is the number of pods that podrun has ever created for the Job.
	Attempts int32 `json:"attempts,omitempty"`
	// Failures is the number of failed pods since the last success. LastFailure is the time at
	// which the last of them ended.
	Failures    int32        `json:"failures,omitempty"`
	LastFailure *metav1.Time `json:"lastFailure,omitempty"`
}

// JobPod is a pod of a Job, in the Job's namespace.
type JobPod struct {
	Name  string      `json:"name"`
	State JobPodState `json:"state"`
	Index *int32      `json:"index,omitempty"` // the completion index of the pod in an Indexed Job
}

// JobPodState is the state of a pod of a Job.
type JobPodState string

// The states of a Job's pods. A Succeeded or Failed pod has ended, and the Job's status counts it.
// A Stopping pod is one that podrun is removing.
const (
	JobPodActive    JobPodState = "Active"
	JobPodStopping  JobPodState = "Stopping"
	JobPodSucceeded JobPodState = "Succeeded"
	JobPodFailed    JobPodState = "Failed"
)

// CronJobRecord is the record of a CronJob that podrun serve runs.
type CronJobRecord struct {
	// CronJob is the CronJob as its author wrote it, with its UID, creation time and status. Its
	// metadata.deletionTimestamp is set if it must be deleted.
	CronJob *batchv1.CronJob `json:"cronJob"`
	Path    string           `json:"path,omitempty"`
	Deleted bool             `json:"deleted,omitempty"` // as in JobRecord
	// Dependencies are the objects to which the CronJob's pods refer, if a command applied the CronJob
	// together with them. It is nil if there are none. For a CronJob in a file, podrun uses the objects in
	// the manifest directories.
	Dependencies *manifest.Dependencies `json:"dependencies,omitempty"`
	// Starting is the Job for status.lastScheduleTime, while podrun is creating the record of this
	// Job.
	Starting *batchv1.Job `json:"starting,omitempty"`
}

// DeepCopy returns a copy.
func (r *JobRecord) DeepCopy() *JobRecord {
	out := *r
	out.Job = r.Job.DeepCopy()
	out.Pods = slices.Clone(r.Pods)
	out.LastFailure = r.LastFailure.DeepCopy()
	return &out
}

// Deleting reports whether the Job must be deleted, or was deleted.
func (r *JobRecord) Deleting() bool { return r.Deleted || r.Job.DeletionTimestamp != nil }

// Deleting reports whether the CronJob must be deleted, or was deleted.
func (r *CronJobRecord) Deleting() bool { return r.Deleted || r.CronJob.DeletionTimestamp != nil }

// OwnedBy reports whether a CronJob owns the Job.
func (r *JobRecord) OwnedBy(c *batchv1.CronJob) bool { return metav1.IsControlledBy(r.Job, c) }

// Records contains all records of Jobs and CronJobs, sorted by namespace and name. Unreadable maps
// the path of each record that podrun cannot use to the reason.
type Records struct {
	Jobs       []*JobRecord
	CronJobs   []*CronJobRecord
	Unreadable map[string]error
}

// maxRecord is the maximum size of a record in bytes. A manifest may be larger; podrun then
// refuses the Job.
const maxRecord = 4 << 20

var jobRecords = statefile.DeclareKeyed(statefile.Keyed[*JobRecord]{
	Dir: identity.Layout.Jobs,
	Kind: &statefile.Kind[*JobRecord]{
		What: "the record of a Job", Files: "jobs/<namespace>_<name>", Scope: statefile.Job,
		On:    statefile.Answers{Absent: "no such Job", Corrupt: statefile.Refuse, Unreadable: statefile.Refuse, Newer: statefile.Refuse},
		Limit: maxRecord, Mode: 0o600, DirMode: 0o750,
	},
	Check: func(_ identity.Pod, r *JobRecord) error {
		if r == nil || r.Job == nil {
			return errors.New("it has no Job")
		}
		return nil
	},
})

var cronJobRecords = statefile.DeclareKeyed(statefile.Keyed[*CronJobRecord]{
	Dir: identity.Layout.CronJobs,
	Kind: &statefile.Kind[*CronJobRecord]{
		What: "the record of a CronJob", Files: "cronjobs/<namespace>_<name>", Scope: statefile.CronJob,
		On:    statefile.Answers{Absent: "no such CronJob", Corrupt: statefile.Refuse, Unreadable: statefile.Refuse, Newer: statefile.Refuse},
		Limit: maxRecord, Mode: 0o600, DirMode: 0o750,
	},
	Check: func(_ identity.Pod, r *CronJobRecord) error {
		if r == nil || r.CronJob == nil {
			return errors.New("it has no CronJob")
		}
		return nil
	},
})

// LockRecords locks the records of Jobs and CronJobs for changes. The caller must not hold the lock
// while it waits for an event. The argument who identifies the process that holds the lock.
func LockRecords(ctx context.Context, layout identity.Layout, who string) (*FileLock, error) {
	l, err := Lock(ctx, layout.Locks().Jobs(), who, nil)
	if err != nil {
		return nil, fmt.Errorf("lock the records of Jobs: %w", err)
	}
	return l, nil
}

// ReadRecords reads all records.
func ReadRecords(layout identity.Layout) (*Records, error) {
	out := &Records{Unreadable: map[string]error{}}
	var err error
	if out.Jobs, err = listRecords(layout, jobRecords, out.Unreadable); err == nil {
		out.CronJobs, err = listRecords(layout, cronJobRecords, out.Unreadable)
	}
	return out, err
}

// listRecords lists the records of a directory, and adds those that podrun cannot use to unreadable.
func listRecords[T any](layout identity.Layout, from statefile.Keyed[T], unreadable map[string]error) (out []T, err error) {
	records, faults, err := from.List(context.Background(), layout, nil)
	for _, r := range records {
		out = append(out, r.Value)
	}
	for _, f := range faults {
		unreadable[f.Path] = f.Fault
	}
	return out, err
}

// WriteJob writes and syncs the record of a Job.
func WriteJob(layout identity.Layout, r *JobRecord) error {
	faultpoint.At("job/write")
	err := jobRecords.Put(layout, identity.Pod{Namespace: r.Job.Namespace, Name: r.Job.Name}, r)
	faultpoint.At("job/written")
	return err
}

// WriteCronJob writes and syncs the record of a CronJob.
func WriteCronJob(layout identity.Layout, r *CronJobRecord) error {
	faultpoint.At("cronjob/write")
	err := cronJobRecords.Put(layout, identity.Pod{Namespace: r.CronJob.Namespace, Name: r.CronJob.Name}, r)
	faultpoint.At("cronjob/written")
	return err
}

// RemoveJob removes the record of a Job.
func RemoveJob(layout identity.Layout, j *batchv1.Job) error {
	faultpoint.At("record/remove")
	return jobRecords.Delete(layout, identity.Pod{Namespace: j.Namespace, Name: j.Name})
}

// RemoveCronJob removes the record of a CronJob.
func RemoveCronJob(layout identity.Layout, c *batchv1.CronJob) error {
	faultpoint.At("record/remove")
	return cronJobRecords.Delete(layout, identity.Pod{Namespace: c.Namespace, Name: c.Name})
}
