package lifecycle

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podrun/podrun/internal/identity"
)

// SetWorkloadStatus sets the status of a workload as its controller would set it if the given pods
// were all the workload's pods. A Job or CronJob has one pod.
func SetWorkloadStatus(workload runtime.Object, pods []*corev1.Pod, now time.Time) {
	total := int32(len(pods))
	switch o := workload.(type) {
	case *appsv1.Deployment:
		n := countsOf(pods, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.DeploymentStatus{Replicas: total, UpdatedReplicas: total, ReadyReplicas: n.ready, AvailableReplicas: n.available,
			UnavailableReplicas: total - n.available, Conditions: []appsv1.DeploymentCondition{deploymentAvailable(n, max(total, requested(o)))}}
	case *appsv1.StatefulSet:
		n := countsOf(pods, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.StatefulSetStatus{
			Replicas:          total,
			CurrentReplicas:   total,
			UpdatedReplicas:   total,
			ReadyReplicas:     n.ready,
			AvailableReplicas: n.available,
		}
	case *appsv1.DaemonSet:
		n := countsOf(pods, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, UpdatedNumberScheduled: 1,
			NumberReady: n.ready, NumberAvailable: n.available, NumberUnavailable: 1 - n.available}
	case *appsv1.ReplicaSet:
		n := countsOf(pods, o.Spec.MinReadySeconds, now)
		o.Status = appsv1.ReplicaSetStatus{Replicas: total, FullyLabeledReplicas: total, ReadyReplicas: n.ready, AvailableReplicas: n.available}
	case *corev1.ReplicationController:
		n := countsOf(pods, o.Spec.MinReadySeconds, now)
		o.Status = corev1.ReplicationControllerStatus{
			Replicas:             total,
			FullyLabeledReplicas: total,
			ReadyReplicas:        n.ready,
			AvailableReplicas:    n.available,
		}
	case *batchv1.Job:
		o.Status = jobStatus(pods[0])
	case *batchv1.CronJob:
		o.Status = batchv1.CronJobStatus{}
		if pod := pods[0]; !hasEnded(pod) {
			o.Status.Active = []corev1.ObjectReference{{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
		}
	}
}

// requested returns the number of pods that a Deployment requests, if podrun honours it.
func requested(o *appsv1.Deployment) int32 {
	if o.Annotations[identity.AnnotationReplicas] != identity.ReplicasHonour || o.Spec.Replicas == nil {
		return 0
	}
	return *o.Spec.Replicas
}

// replicaCounts counts the pods of a workload by their state.
type replicaCounts struct {
	ready, available int32
	since            metav1.Time // when a pod last became ready, or not ready
}

func countsOf(pods []*corev1.Pod, minReadySeconds int32, now time.Time) (n replicaCounts) {
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type != corev1.PodReady {
				continue
			}
			if n.since.Before(&c.LastTransitionTime) {
				n.since = c.LastTransitionTime
			}
			if c.Status != corev1.ConditionTrue {
				continue
			}
			n.ready++
			if !now.Before(c.LastTransitionTime.Add(time.Duration(minReadySeconds) * time.Second)) {
				n.available++
			}
		}
	}
	return n
}

// deploymentAvailable returns the condition Available of a Deployment that requires the given
// number of pods, as the deployment controller sets it (pkg/controller/deployment/sync.go).
func deploymentAvailable(n replicaCounts, required int32) appsv1.DeploymentCondition {
	c := appsv1.DeploymentCondition{
		Type:               appsv1.DeploymentAvailable,
		Status:             corev1.ConditionFalse,
		LastUpdateTime:     n.since,
		LastTransitionTime: n.since,
		Reason:             "MinimumReplicasUnavailable",
		Message:            "Deployment does not have minimum availability.",
	}
	if n.available >= required {
		c.Status = corev1.ConditionTrue
		c.Reason = "MinimumReplicasAvailable"
		c.Message = "Deployment has minimum availability."
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
		out.Conditions = append(out.Conditions, batchv1.JobCondition{
			Type:               kind,
			Status:             corev1.ConditionTrue,
			LastProbeTime:      ended,
			LastTransitionTime: ended,
			Reason:             reason,
			Message:            message,
		})
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		out.Succeeded = 1
		out.CompletionTime = &ended
		condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	case corev1.PodFailed:
		out.Failed = 1
		condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	default:
		ready := countsOf([]*corev1.Pod{pod}, 0, time.Time{}).ready
		out.Active = 1
		out.Ready = &ready
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
