package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestSetWorkloadStatus(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) metav1.Time { return metav1.NewTime(began.Add(time.Duration(seconds) * time.Second)) }
	start := at(0)
	pod := func(phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}, Status: corev1.PodStatus{Phase: phase, StartTime: &start,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: at(10)}}}}
		if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			for _, end := range []int{20, 30} {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(end)}}})
			}
		}
		return p
	}
	running, starting := pod(corev1.PodRunning, corev1.ConditionTrue), pod(corev1.PodRunning, corev1.ConditionFalse)
	for _, test := range []struct {
		name     string
		workload runtime.Object
		pods     []*corev1.Pod
		after    int // seconds since the pod started
		want     string
	}{
		{"deployment", &appsv1.Deployment{}, []*corev1.Pod{running}, 11,
			`{"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True","lastUpdateTime":"2026-01-02T03:04:15Z","lastTransitionTime":"2026-01-02T03:04:15Z","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."}]}`},
		{"minReadySeconds", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{MinReadySeconds: 5}}, []*corev1.Pod{running}, 14,
			`{"replicas":1,"fullyLabeledReplicas":1,"readyReplicas":1}`},
		{"after minReadySeconds", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{MinReadySeconds: 5}}, []*corev1.Pod{running}, 15,
			`{"replicas":1,"fullyLabeledReplicas":1,"readyReplicas":1,"availableReplicas":1}`},
		{"not ready", &appsv1.DaemonSet{}, []*corev1.Pod{starting}, 11,
			`{"currentNumberScheduled":1,"numberMisscheduled":0,"desiredNumberScheduled":1,"numberReady":0,"updatedNumberScheduled":1,"numberUnavailable":1}`},
		{"stateful set", &appsv1.StatefulSet{}, []*corev1.Pod{running}, 11, `{"replicas":1,"readyReplicas":1,"currentReplicas":1,"updatedReplicas":1,"availableReplicas":1}`},
		{"controller", &corev1.ReplicationController{}, []*corev1.Pod{starting}, 11, `{"replicas":1,"fullyLabeledReplicas":1}`},
		{"two of three replicas", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"podrun.dev/replicas": "honour"}}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}, []*corev1.Pod{running, starting, running}, 11,
			`{"replicas":3,"updatedReplicas":3,"readyReplicas":2,"availableReplicas":2,"unavailableReplicas":1,"conditions":[{"type":"Available","status":"False","lastUpdateTime":"2026-01-02T03:04:15Z","lastTransitionTime":"2026-01-02T03:04:15Z","reason":"MinimumReplicasUnavailable","message":"Deployment does not have minimum availability."}]}`},
		{"a replica is missing", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"podrun.dev/replicas": "honour"}}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}, []*corev1.Pod{running}, 11,
			`{"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"False","lastUpdateTime":"2026-01-02T03:04:15Z","lastTransitionTime":"2026-01-02T03:04:15Z","reason":"MinimumReplicasUnavailable","message":"Deployment does not have minimum availability."}]}`},
		{"no replica", &appsv1.StatefulSet{}, nil, 11, `{"replicas":0,"availableReplicas":0}`},
		{"running job", &batchv1.Job{}, []*corev1.Pod{running}, 11, `{"startTime":"2026-01-02T03:04:05Z","active":1,"ready":1}`},
		{"complete job", &batchv1.Job{}, []*corev1.Pod{pod(corev1.PodSucceeded, corev1.ConditionFalse)}, 40,
			`{"conditions":[{"type":"Complete","status":"True","lastProbeTime":"2026-01-02T03:04:35Z","lastTransitionTime":"2026-01-02T03:04:35Z","reason":"CompletionsReached","message":"Reached expected number of succeeded pods"}],"startTime":"2026-01-02T03:04:05Z","completionTime":"2026-01-02T03:04:35Z","succeeded":1}`},
		{"failed job", &batchv1.Job{}, []*corev1.Pod{pod(corev1.PodFailed, corev1.ConditionFalse)}, 40,
			`{"conditions":[{"type":"Failed","status":"True","lastProbeTime":"2026-01-02T03:04:35Z","lastTransitionTime":"2026-01-02T03:04:35Z","reason":"BackoffLimitExceeded","message":"Job has reached the specified backoff limit"}],"startTime":"2026-01-02T03:04:05Z","failed":1}`},
		{"active cron job", &batchv1.CronJob{}, []*corev1.Pod{running}, 11, `{"active":[{"kind":"Pod","namespace":"shop","name":"web","uid":"u","apiVersion":"v1"}]}`},
		{"ended cron job", &batchv1.CronJob{}, []*corev1.Pod{pod(corev1.PodSucceeded, corev1.ConditionFalse)}, 40, `{}`},
	} {
		SetWorkloadStatus(test.workload, test.pods, began.Add(time.Duration(test.after)*time.Second))
		data, err := json.Marshal(test.workload)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Status json.RawMessage }
		if err := json.Unmarshal(data, &got); err != nil || string(got.Status) != test.want {
			t.Errorf("%s: status\n%s, want\n%s", test.name, got.Status, test.want)
		}
	}
}
