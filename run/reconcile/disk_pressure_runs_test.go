package reconcile

import (
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
)

// TestDead includes the case that the host's clock was set back: the newest runs may then have the
// earliest times.
func TestDead(t *testing.T) {
	for _, step := range []int64{1, -1} {
		testDead(t, step)
	}
}

func testDead(t *testing.T, step int64) {
	const created, running, exited = runtimeapi.ContainerState_CONTAINER_CREATED, runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED
	var list []*runtimeapi.Container
	for i, c := range []struct {
		id, pod, name string
		state         runtimeapi.ContainerState
	}{
		{"a0", "p1", "a", exited}, {"a1", "p1", "a", exited}, {"a2", "p1", "a", running},
		// The container is in back-off: its newest run has the restart count.
		{"b0", "p1", "b", exited}, {"b1", "p1", "b", exited},
		{"c0", "p1", "c", exited}, {"c1", "p1", "c", created}, // the newest run is being started
		{"d0", "p2", "a", exited}, {"e0", "p2", "e", running},
	} {
		list = append(list, &runtimeapi.Container{Id: c.id, State: c.state, CreatedAt: int64(i) * step, Metadata: &runtimeapi.ContainerMetadata{Attempt: uint32(c.id[1] - '0')},
			Labels: map[string]string{identity.LabelPodUID: c.pod, identity.LabelContainerName: c.name}})
	}
	slices.Reverse(list)
	var got []string
	for _, c := range dead(list) {
		got = append(got, c.Id)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"a0", "a1", "b0"}) {
		t.Errorf("%q", got)
	}
}
