package lifecycle

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SetWorkloadStatus sets the status of a workload to what its controller would report if the
// given pod were the workload's only pod.
func SetWorkloadStatus(workload runtime.Object, pod *corev1.Pod, now time.Time) {
	switch o := workload.(type) {
	case *appsv1.Deployment:
		n := countsOf(pod, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: n.ready, AvailableReplicas: n.available,
			UnavailableReplicas: 1 - n.available, Conditions: []appsv1.DeploymentCondition{deploymentAvailable(n)}}
	case *appsv1.StatefulSet:
		n := countsOf(pod, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.StatefulSetStatus{Replicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1, ReadyReplicas: n.ready, AvailableReplicas: n.available}
	case *appsv1.DaemonSet:
		n := countsOf(pod, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, UpdatedNumberScheduled: 1,
			NumberReady: n.ready, NumberAvailable: n.available, NumberUnavailable: 1 - n.available}
	case *appsv1.ReplicaSet:
		n := countsOf(pod, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.ReplicaSetStatus{Replicas: 1, FullyLabeledReplicas: 1, ReadyReplicas: n.ready, AvailableReplicas: n.available}
	case *corev1.ReplicationController:
		n := countsOf(pod, o.Spec.MinReadySeconds, now)
		o.Status = corev1.ReplicationControllerStatus{Replicas: 1, FullyLabeledReplicas: 1, ReadyReplicas: n.ready, AvailableReplicas: n.available}
	case *batchv1.Job:
		o.Status = jobStatus(pod)
	case *batchv1.CronJob:
		o.Status = batchv1.CronJobStatus{}
		if !hasEnded(pod) {
			o.Status.Active = []corev1.ObjectReference{{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
		}
	}
}

// replicaCounts are the numbers of pods of a workload: 0 or 1.
type replicaCounts struct {
	ready, available int32
	since            metav1.Time // when the pod became ready, or not ready
}

func countsOf(pod *corev1.Pod, minReadySeconds int32, now time.Time) (n replicaCounts) {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReady {
			continue
		}
		n.since = c.LastTransitionTime
		if c.Status == corev1.ConditionTrue {
			n.ready = 1
		}
	}
	if n.ready == 1 && !now.Before(n.since.Add(time.Duration(minReadySeconds)*time.Second)) {
		n.available = 1
	}
	return n
}

// deploymentAvailable returns the condition of the deployment controller
// (pkg/controller/deployment/sync.go).
func deploymentAvailable(n replicaCounts) appsv1.DeploymentCondition {
	c := appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, LastUpdateTime: n.since, LastTransitionTime: n.since,
		Reason: "MinimumReplicasUnavailable", Message: "Deployment does not have minimum availability."}
	if n.available == 1 {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability."
	}
	return c
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// jobStatus returns the status of a Job. Its pod is the only attempt, because podrun starts no
// other pod.
func jobStatus(pod *corev1.Pod) batchv1.JobStatus {
	out := batchv1.JobStatus{StartTime: pod.Status.StartTime}
	ended := endTime(pod)
	condition := func(kind batchv1.JobConditionType, reason, message string) {
		out.Conditions = append(out.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastProbeTime: ended, LastTransitionTime: ended, Reason: reason, Message: message})
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		out.Succeeded, out.CompletionTime = 1, &ended
		condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	case corev1.PodFailed:
		out.Failed = 1
		condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	default:
		ready := countsOf(pod, 0, time.Time{}).ready
		out.Active, out.Ready = 1, &ready
	}
	return out
}

// endTime returns when the last container of an ended pod exited.
func endTime(pod *corev1.Pod) metav1.Time {
	var last metav1.Time
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && last.Before(&t.FinishedAt) {
			last = t.FinishedAt
		}
	}
	return last
}
