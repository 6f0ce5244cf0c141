package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// ManualAnnotation marks a Job that a user created from a CronJob, as kubectl does.
const ManualAnnotation = "cronjob.kubernetes.io/instantiate"

// CreateJob creates a Job from a CronJob, for `podrun serve` to run.
func CreateJob(ctx context.Context, n *node.Node, namespace, cronJob, name string) (*batchv1.Job, error) {
	return changeRecords(ctx, n, func(records *store.Records) (*batchv1.Job, error) {
		i := slices.IndexFunc(records.CronJobs, func(r *store.CronJobRecord) bool {
			return r.CronJob.Namespace == namespace && r.CronJob.Name == cronJob && !r.Deleting()
		})
		if i < 0 {
			return nil, &problem.Error{Kind: problem.Failed, Object: "cronjob " + cronJob, Err: errors.New("not found"),
				Hint: "run 'podrun get cronjobs -A' to list the CronJobs of 'podrun serve'"}
		}
		if slices.ContainsFunc(records.Jobs, func(r *store.JobRecord) bool { return r.Job.Namespace == namespace && r.Job.Name == name }) ||
			records.Unreadable[n.Layout().Job(namespace, name)] != nil {
			return nil, &problem.Error{Kind: problem.Failed, Object: "job " + name,
				Err:  errors.New("already exists"),
				Hint: "use another name, or run 'podrun delete job " + name + "' first"}
		}
		if len(name) > manifest.MaxJobName {
			return nil, &problem.Error{Kind: problem.Usage, Object: "job " + name,
				Err: fmt.Errorf("the name has more than %d characters", manifest.MaxJobName)}
		}
		job := lifecycle.JobFromTemplate(records.CronJobs[i].CronJob, name)
		job.Annotations[ManualAnnotation] = "manual"
		if _, problems := manifest.PodOfJob(job, name); len(problems.Errors()) > 0 {
			return nil, &problem.Error{Kind: problem.Manifest, Object: "job " + name, Err: errors.New(problems.Errors()[0].Message)}
		}
		job.UID = uuid.NewUUID()
		job.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
		return job, store.WriteJob(n.Layout(), &store.JobRecord{Job: job})
	})
}

// maxCronJob is the maximum size in bytes of an applied CronJob with the objects to which it refers. The
// record, with the CronJob's status, may be larger (store.WriteCronJob).
const maxCronJob = 3 << 20

// ApplyCronJob creates or updates a CronJob, with the objects to which its pods refer, for `podrun serve` to run.
// If a file defines a CronJob of this name, or the record would be too large, the error is of kind Refused.
func ApplyCronJob(ctx context.Context, n *node.Node, c *batchv1.CronJob, dependencies *manifest.Dependencies) (Outcome, error) {
	refuse := func(hint, format string, args ...any) error {
		return &problem.Error{Kind: problem.Refused, Object: "cronjob " + c.Name, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	updated := &store.CronJobRecord{CronJob: c, Dependencies: dependencies}
	data, err := json.Marshal(updated)
	switch {
	case err != nil:
		return "", refuse("", "%w", err)
	case len(data) > maxCronJob:
		return "", refuse("use smaller ConfigMaps and Secrets, or copy the files to a manifest directory of 'podrun serve'",
			"with its ConfigMaps and Secrets, it has more than %d MiB", maxCronJob>>20)
	case dependencies != nil && len(dependencies.Secrets) > 0 && n.Settings.Secrets == nodeconfig.SecretsInMemory:
		return "", refuse("copy the file to a manifest directory of 'podrun serve', with the Secrets", "podrun would write its Secrets to the disk, which the setting secrets: %s forbids", nodeconfig.SecretsInMemory)
	}
	return changeRecords(ctx, n, func(records *store.Records) (Outcome, error) {
		i := slices.IndexFunc(records.CronJobs, func(r *store.CronJobRecord) bool {
			return r.CronJob.Namespace == c.Namespace && r.CronJob.Name == c.Name
		})
		if i < 0 {
			c.UID = uuid.NewUUID()
			c.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
			return reconcile.OutcomeCreated, store.WriteCronJob(n.Layout(), updated)
		}
		r := records.CronJobs[i]
		switch {
		case r.Path != "":
			return "", refuse("change that file", "it is defined in %s", r.Path)
		case r.Deleting():
			return "", refuse("try again when 'podrun get cronjob "+c.Name+"' no longer lists it", "podrun is deleting it")
		case equality.Semantic.DeepEqual(r.CronJob.Spec, c.Spec) && equality.Semantic.DeepEqual(r.CronJob.Labels, c.Labels) && equality.Semantic.DeepEqual(r.CronJob.Annotations, c.Annotations) &&
			equality.Semantic.DeepEqual(r.Dependencies, dependencies):
			return reconcile.OutcomeUnchanged, nil
		}
		r.CronJob.Spec = c.Spec
		r.CronJob.Labels = c.Labels
		r.CronJob.Annotations = c.Annotations
		r.Dependencies = dependencies
		return reconcile.OutcomeUpdated, store.WriteCronJob(n.Layout(), r)
	})
}

// changeRecords acquires the lock of the records of Jobs and CronJobs, and calls change with the
// records.
func changeRecords[T any](ctx context.Context, e *node.Node, change func(*store.Records) (T, error)) (T, error) {
	var none T
	lock, err := store.LockRecords(ctx, e.Layout(), e.Holder())
	if err != nil {
		return none, err
	}
	defer lock.Unlock()
	records, err := store.ReadRecords(e.Layout())
	if err != nil {
		return none, err
	}
	return change(records)
}

// DeleteJobs deletes the Jobs and CronJobs in refs, with their pods. It first records that they must be
// deleted, so that `podrun serve` or another call completes an interrupted deletion. If a file of
// `podrun serve` defines one of them, podrun does not run it again until its definition in the file
// changes. The result found contains the refs of the Jobs and CronJobs that existed.
func DeleteJobs(ctx context.Context, n *node.Node, namespace string, refs []lookup.Ref, o DeleteOptions) (found []lookup.Ref, results []Result, err error) {
	marked, err := changeRecords(ctx, n, func(records *store.Records) (*store.Records, error) {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		out := &store.Records{}
		names := func(kind string, o metav1.Object) bool {
			return o.GetNamespace() == namespace && slices.Contains(refs, lookup.Ref{Kind: kind, Name: o.GetName()})
		}
		for _, c := range records.CronJobs {
			if c.Deleted || !names("CronJob", c.CronJob) {
				continue
			}
			if c.CronJob.DeletionTimestamp == nil {
				c.CronJob.DeletionTimestamp = &now
				if err := store.WriteCronJob(n.Layout(), c); err != nil {
					return out, err
				}
			}
			out.CronJobs, found = append(out.CronJobs, c), append(found, lookup.Ref{Kind: "CronJob", Name: c.CronJob.Name})
		}
		for _, j := range records.Jobs {
			owned := slices.ContainsFunc(out.CronJobs, func(c *store.CronJobRecord) bool { return j.OwnedBy(c.CronJob) })
			if named := names("Job", j.Job); j.Deleted || !named && !owned {
				continue
			} else if named {
				found = append(found, lookup.Ref{Kind: "Job", Name: j.Job.Name})
			}
			out.Jobs = append(out.Jobs, j)
			if j.Job.DeletionTimestamp == nil {
				j.Job.DeletionTimestamp = &now
				if err := store.WriteJob(n.Layout(), j); err != nil {
					return out, err
				}
			}
		}
		return out, nil
	})
	if err != nil || len(found) == 0 {
		return found, nil, err
	}
	sel := lookup.Selector{Namespace: namespace}
	for _, j := range marked.Jobs {
		for _, p := range j.Pods {
			sel.Names = append(sel.Names, p.Name)
		}
	}
	if len(sel.Names) > 0 {
		pods, err := lookup.Find(ctx, n, sel)
		if err == nil {
			results, err = DeletePods(ctx, n, pods, o)
		}
		if err != nil {
			return found, results, err
		}
	}
	if slices.ContainsFunc(results, func(r Result) bool { return r.Err != nil }) {
		return found, results, nil
	}
	return found, results, forgetJobs(ctx, n, marked)
}

// forgetJobs removes the records of deleted Jobs and CronJobs. If a file may still define one of them,
// it keeps the record and marks it as deleted; `podrun serve` removes this record when the file no
// longer defines the object.
func forgetJobs(ctx context.Context, n *node.Node, marked *store.Records) error {
	_, err := changeRecords(ctx, n, func(records *store.Records) (none struct{}, err error) {
		var errs []error
		for _, j := range records.Jobs {
			same := func(m *store.JobRecord) bool { return m.Job.UID == j.Job.UID }
			if !slices.ContainsFunc(marked.Jobs, same) {
				continue
			}
			if j.Path == "" {
				errs = append(errs, store.RemoveJob(n.Layout(), j.Job))
				continue
			}
			j.Deleted = true
			j.Pods = nil
			errs = append(errs, store.WriteJob(n.Layout(), j))
		}
		for _, c := range records.CronJobs {
			same := func(m *store.CronJobRecord) bool { return m.CronJob.UID == c.CronJob.UID }
			if !slices.ContainsFunc(marked.CronJobs, same) {
				continue
			}
			if c.Path == "" {
				errs = append(errs, store.RemoveCronJob(n.Layout(), c.CronJob))
				continue
			}
			c.Deleted = true
			c.Starting = nil
			c.CronJob.Status = batchv1.CronJobStatus{}
			errs = append(errs, store.WriteCronJob(n.Layout(), c))
		}
		return none, errors.Join(errs...)
	})
	return err
}

// WaitJob waits until a Job of `podrun serve` has a condition (Complete or Failed), has ended
// (completed), or is deleted. It returns false if there is no such Job. The error is of kind Failed if
// the Job ends without reaching the goal, or is deleted. A Job with the same name that is created later
// is another Job.
func WaitJob(ctx context.Context, n *node.Node, namespace, name string, goal lifecycle.Goal) (found bool, err error) {
	object := "job " + name
	var uid types.UID
	for ; ; found = true {
		jobs, _, err := lookup.Jobs(n.Layout(), namespace, func(problem.Problem) {})
		if err != nil {
			return found, err
		}
		i := slices.IndexFunc(jobs, func(j lookup.JobObject) bool { return j.Object.Name == name && (!found || j.Object.UID == uid) })
		switch {
		case i < 0 && (!found || goal == lifecycle.GoalDeleted):
			return found, nil
		case i < 0:
			return true, &problem.Error{Kind: problem.Failed, Object: object, Err: errors.New("was deleted")}
		}
		uid = jobs[i].Object.UID
		met, ended := jobMeets(jobs[i].Object, goal)
		if met {
			return true, nil
		}
		if ended != "" {
			return true, &problem.Error{Kind: problem.Failed, Object: object,
				Err:  errors.New(howEnded(jobs[i].Object, ended)),
				Hint: "run 'podrun describe job " + name + "' to see why"}
		}
		if err := wait.Sleep(ctx, jobPoll); err != nil {
			hint := "increase --timeout"
			if !n.Supervised() {
				hint = "start 'podrun serve', which runs Jobs"
			}
			return true, &problem.Error{Kind: problem.Deadline, Object: object, Err: errors.New("the condition was not met in time"), Hint: hint}
		}
	}
}

// howEnded describes the end of a Job that has not reached the goal of a wait, with the reason of its failure.
func howEnded(j *batchv1.Job, ended string) string {
	if ended == string(batchv1.JobFailed) {
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue && c.Reason != "" {
				return "has failed: " + c.Reason + ": " + c.Message
			}
		}
		return "has failed"
	}
	return "has ended (" + ended + ") before the condition was met"
}

// jobPoll is the interval at which WaitJob reads the record of the Job.
const jobPoll = 100 * time.Millisecond

// jobMeets reports whether a Job meets a goal. The result ended is the condition with which the Job
// has ended, or "" if it has not ended.
func jobMeets(j *batchv1.Job, goal lifecycle.Goal) (met bool, ended string) {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if lifecycle.JobHas(j, kind) {
			ended = string(kind)
		}
	}
	switch goal {
	case lifecycle.GoalDeleted:
		return false, ""
	case lifecycle.GoalCompleted, lifecycle.GoalSucceeded:
		return ended == string(batchv1.JobComplete), ended
	case lifecycle.GoalFailed:
		return ended == string(batchv1.JobFailed), ended
	}
	return false, strings.TrimSpace(ended)
}
