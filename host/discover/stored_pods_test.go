package discover

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/resource"
)

// TestDemand checks that a partially decoded checkpoint has the same requests and ports as a
// fully decoded one.
func TestDemand(t *testing.T) {
	// The test reuses part, as readStored does.
	part := &corev1.Pod{}
	for name, spec := range map[string]string{
		"nothing":         `{"containers":[{"name":"a"}]}`,
		"requests":        `{"containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"1Gi","vendor.example/x":"2"}}},{"name":"b","resources":{"requests":{"cpu":"500m"}}}]}`,
		"guaranteed":      `{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Mi"},"requests":{"cpu":"1","memory":"1Mi"}}}]}`,
		"limits":          `{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}]}`,
		"init containers": `{"initContainers":[{"name":"i","resources":{"requests":{"cpu":"4"}}}],"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}`,
		"sidecars": `{"initContainers":[{"name":"i","restartPolicy":"Always","ports":[{"containerPort":1,"hostPort":1}],"resources":{"requests":{"cpu":"4"}}},{"name":"j","ports":[{"containerPort":2,"hostPort":2}]}],
			"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}`,
		"the pod's resources": `{"resources":{"requests":{"cpu":"3","memory":"5Mi"},"limits":{"cpu":"3","memory":"5Mi"}},"containers":[{"name":"a","resources":{"requests":{"cpu":"1","hugepages-2Mi":"2Mi"}}}]}`,
		"overhead":            `{"overhead":{"cpu":"250m","memory":"64Mi"},"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}`,
		"ports":               `{"containers":[{"name":"a","ports":[{"containerPort":80,"hostPort":8080,"hostIP":"10.0.0.1","protocol":"UDP"},{"containerPort":81}]}]}`,
		"the host's network":  `{"hostNetwork":true,"priority":2000001000,"containers":[{"name":"a","ports":[{"name":"web","containerPort":80,"protocol":"TCP"}]}]}`,
	} {
		text := `{"kind":"Pod","metadata":{"name":"web","namespace":"ci","uid":"u","labels":{"name":"label"}},"spec":` + spec + `,"status":{"resources":{"requests":{"cpu":"9"}}}}`
		var whole corev1.Pod
		if err := json.Unmarshal([]byte(text), &whole); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err := decodeCheckpoint([]byte("# podrun pod ci/web\n"+text+"\n---\n{}\n"), part)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(described(&whole), described(part)); diff != "" {
			t.Errorf("%s: -whole +part:\n%s", name, diff)
		}
	}
}

// described returns the data that readCheckpoint uses.
func described(pod *corev1.Pod) host.Pod {
	out := host.Pod{Namespace: pod.Namespace, Name: pod.Name, HostNetwork: pod.Spec.HostNetwork,
		QOSClass: resource.QOSClass(pod), Requests: resource.PodRequests(pod), HostPorts: host.HostPorts(pod)}
	if pod.Spec.Priority != nil {
		out.Priority = *pod.Spec.Priority
	}
	return out
}
