package lookup

import (
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// JobObject is a Job that `podrun serve` runs, with the API's defaults and its status. Pods are the
// names of its pods, in the order in which they were created.
type JobObject struct {
	Object *batchv1.Job
	Pods   []string
}

// Jobs reads the Jobs and CronJobs that `podrun serve` runs in a namespace; "" means all
// namespaces. The results are sorted by namespace and name. Jobs does not call the runtime. It
// calls warn for each record that it cannot read.
func Jobs(layout identity.Layout, namespace string, warn func(problem.Problem)) (jobs []JobObject, cronJobs []*batchv1.CronJob, err error) {
	records, err := store.ReadRecords(layout)
	if err != nil {
		return nil, nil, err
	}
	for path, err := range records.Unreadable {
		warn(problem.WarningOf(fmt.Errorf("read %s: %w", path, err)))
	}
	for _, r := range records.Jobs {
		if r.Deleted || namespace != "" && r.Job.Namespace != namespace {
			continue
		}
		o := JobObject{Object: manifest.WithDefaults(r.Job)}
		for _, p := range r.Pods {
			o.Pods = append(o.Pods, p.Name)
		}
		jobs = append(jobs, o)
	}
	for _, r := range records.CronJobs {
		if !r.Deleted && (namespace == "" || r.CronJob.Namespace == namespace) {
			cronJobs = append(cronJobs, manifest.CronJobWithDefaults(r.CronJob))
		}
	}
	return jobs, cronJobs, nil
}

// podOfJob returns the name of the newest pod of a Job that `podrun serve` runs, or of the newest
// Job of a CronJob. It returns "" if there is none.
func podOfJob(layout identity.Layout, namespace string, r Ref) (string, error) {
	if r.Kind != "Job" && r.Kind != "CronJob" {
		return "", nil
	}
	jobs, cronJobs, err := Jobs(layout, namespace, func(problem.Problem) {})
	if err != nil {
		return "", err
	}
	for _, c := range cronJobs {
		if r.Kind != "CronJob" || c.Name != r.Name {
			continue
		}
		var newest *JobObject
		for i := range jobs {
			j := &jobs[i]
			if metav1.IsControlledBy(j.Object, c) && len(j.Pods) > 0 && (newest == nil || newest.Object.CreationTimestamp.Before(&j.Object.CreationTimestamp)) {
				newest = j
			}
		}
		if newest == nil {
			return "", &problem.Error{Kind: problem.Failed, Object: "cronjob " + r.Name,
				Err:  errors.New("has no pod"),
				Hint: "run 'podrun get cronjob " + r.Name + "' to see its last run"}
		}
		return newest.Pods[len(newest.Pods)-1], nil
	}
	for _, j := range jobs {
		if r.Kind == "Job" && j.Object.Name == r.Name {
			if len(j.Pods) == 0 {
				return "", &problem.Error{Kind: problem.Failed, Object: "job " + r.Name,
					Err: errors.New("has no pod"), Hint: "run 'podrun describe job " + r.Name + "' to see why"}
			}
			return j.Pods[len(j.Pods)-1], nil
		}
	}
	return "", nil
}
