package lifecycle

import (
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobCondition returns a condition of a Job; nil if there is none.
func JobCondition(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// JobHas reports whether a condition of a Job is true.
func JobHas(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	c := JobCondition(j, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// JobFinished reports whether a Job has completed or failed.
func JobFinished(j *batchv1.Job) bool {
	return JobHas(j, batchv1.JobComplete) || JobHas(j, batchv1.JobFailed)
}

// JobFinishedAt returns when a Job completed or failed; the zero time if it has not.
func JobFinishedAt(j *batchv1.Job) time.Time {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if JobHas(j, kind) {
			return JobCondition(j, kind).LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// JobFromTemplate returns a Job with the template of a CronJob, owned by the CronJob.
func JobFromTemplate(c *batchv1.CronJob, name string) *batchv1.Job {
	template := c.Spec.JobTemplate.DeepCopy()
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: template.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, batchv1.SchemeGroupVersion.WithKind("CronJob"))}},
		Spec: template.Spec,
	}
}
