package pods

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
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

// TestStartsAgain: the warning of a pod of an API server names no file.
func TestStartsAgain(t *testing.T) {
	id := identity.Pod{Namespace: "shop", Name: "web"}
	for from, want := range map[string]string{
		"/etc/podrun/web.yaml": "podrun serve will start it again, because /etc/podrun/web.yaml defines it (remove it from that file, or stop it: 'podrun stop web -n shop')",
		"API server/shop/web":  "podrun-node will start it again, because the API server defines it (delete it in the cluster: 'kubectl delete pod web -n shop'; or stop it: 'podrun stop web -n shop')",
	} {
		if got := startsAgain(id, from).String(); got != "pod shop/web: "+want {
			t.Errorf("%s: %q", from, got)
		}
	}
	const want = "pod shop/web: podrun serve will start it again, because it is a replica (reduce the number of replicas: 'podrun scale deployment/web -n shop --replicas=N'; or delete the workload: 'podrun delete deployment/web -n shop')"
	if got := replicaStartsAgain(id, "deployment/web").String(); got != want {
		t.Errorf("%q", got)
	}
}
