package cmd

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestStartsPods: after delete --all, only Jobs that have not ended and are not suspended get another pod.
func TestStartsPods(t *testing.T) {
	job := func(kinds ...batchv1.JobConditionType) *batchv1.Job {
		j := &batchv1.Job{}
		for _, kind := range kinds {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue})
		}
		return j
	}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuspended} {
		if startsPods(job(kind)) {
			t.Errorf("%s: starts pods", kind)
		}
	}
	if !startsPods(job()) {
		t.Error("a running Job starts no pods")
	}
}
