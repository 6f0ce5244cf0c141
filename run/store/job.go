package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
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
	out.Job, out.Pods, out.LastFailure = r.Job.DeepCopy(), slices.Clone(r.Pods), r.LastFailure.DeepCopy()
	return &out
}

// Deleting reports whether the Job must be deleted, or was deleted.
func (r *JobRecord) Deleting() bool { return r.Deleted || r.Job.DeletionTimestamp != nil }

// Deleting reports whether the CronJob must be deleted, or was deleted.
func (r *CronJobRecord) Deleting() bool { return r.Deleted || r.CronJob.DeletionTimestamp != nil }

// OwnedBy reports whether a CronJob owns the Job.
func (r *JobRecord) OwnedBy(c *batchv1.CronJob) bool { return metav1.IsControlledBy(r.Job, c) }

// Records contains all records of Jobs and CronJobs, sorted by namespace and name. Unreadable maps
// the path of each record that podrun cannot read to the reason.
type Records struct {
	Jobs       []*JobRecord
	CronJobs   []*CronJobRecord
	Unreadable map[string]error
}

// maxRecord is the maximum size of a record in bytes. A manifest may be larger; podrun then
// refuses the Job.
const maxRecord = 4 << 20

// LockRecords locks the records of Jobs and CronJobs for changes. The caller must not hold the lock
// while it waits for an event. The argument who identifies the process that holds the lock.
func LockRecords(ctx context.Context, layout identity.Layout, who string) (*FileLock, error) {
	l, err := Lock(ctx, filepath.Join(layout.Locks(), "jobs"), who, nil)
	if err != nil {
		return nil, fmt.Errorf("lock the records of Jobs: %w", err)
	}
	return l, nil
}

// ReadRecords reads all records.
func ReadRecords(layout identity.Layout) (*Records, error) {
	out := &Records{Unreadable: map[string]error{}}
	err := eachRecord(layout.Jobs(), func(path string) error {
		r, err := readRecord[JobRecord](path, maxRecord)
		if err == nil && r.Job == nil {
			err = errors.New("it has no Job")
		}
		if err == nil {
			out.Jobs = append(out.Jobs, r)
		}
		return err
	}, out.Unreadable)
	if err == nil {
		err = eachRecord(layout.CronJobs(), func(path string) error {
			r, err := readRecord[CronJobRecord](path, maxRecord)
			if err == nil && r.CronJob == nil {
				err = errors.New("it has no CronJob")
			}
			if err == nil {
				out.CronJobs = append(out.CronJobs, r)
			}
			return err
		}, out.Unreadable)
	}
	return out, err
}

func eachRecord(dir string, read func(path string) error, unreadable map[string]error) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !strings.Contains(e.Name(), "_") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		err := read(path)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case IsNewer(err):
			unreadable[path] = errors.New("a newer version of podrun wrote it")
		default:
			unreadable[path] = err
		}
	}
	return nil
}

// readRecord reads a record of at most limit bytes. The error is a *identity.SchemaError if a newer version
// of podrun wrote it.
func readRecord[T any](path string, limit int64) (*T, error) {
	data, err := hostfile.ReadNoFollow(context.Background(), path, limit)
	if err != nil {
		return nil, err
	}
	content, version := identity.CutSchema(data)
	if err := identity.CheckSchema(path, version); err != nil {
		return nil, err
	}
	var out T
	return &out, json.Unmarshal(content, &out)
}

// WriteJob writes and syncs the record of a Job.
func WriteJob(layout identity.Layout, r *JobRecord) error {
	return writeRecord(layout.Job(r.Job.Namespace, r.Job.Name), "job", r)
}

// WriteCronJob writes and syncs the record of a CronJob.
func WriteCronJob(layout identity.Layout, r *CronJobRecord) error {
	return writeRecord(layout.CronJob(r.CronJob.Namespace, r.CronJob.Name), "cronjob", r)
}

func writeRecord(path, what string, r any) error {
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("it has more than %d MiB", maxRecord>>20)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o750)
	}
	if err == nil {
		faultpoint.At(what + "/write")
		err = WriteState(path, data, 0o600)
		faultpoint.At(what + "/written")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// RemoveJob removes the record of a Job.
func RemoveJob(layout identity.Layout, j *batchv1.Job) error {
	return removeRecord(layout.Job(j.Namespace, j.Name))
}

// RemoveCronJob removes the record of a CronJob.
func RemoveCronJob(layout identity.Layout, c *batchv1.CronJob) error {
	return removeRecord(layout.CronJob(c.Namespace, c.Name))
}

func removeRecord(path string) error {
	faultpoint.At("record/remove")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}
