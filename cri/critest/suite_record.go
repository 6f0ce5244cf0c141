package critest

import (
	"testing"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// testRecordRemoved removes containerd's records of containers, as `ctr containers rm` does.
// The runtime must still list the containers with their states, and podrun must be able to
// remove them, individually and with their sandbox.
func (s *suite) testRecordRemoved(t *testing.T) {
	if s.Images.Conn() == nil || !s.cfg.Profile.Tasks {
		t.Skip("containerd's own services are not on this connection")
	}
	records := containersapi.NewContainersClient(s.Images.Conn())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "containerd-namespace", "k8s.io")
	for _, ends := range []bool{true, false} {
		for _, alone := range []bool{true, false} {
			p := s.pod(t)
			id, state := p.sh(t, "app", "sleep 1000"), runtimeapi.ContainerState_CONTAINER_RUNNING
			other := p.sh(t, "other", "sleep 1000")
			if ends {
				if err := s.StopContainer(t.Context(), id, 0); err != nil {
					t.Fatal(err)
				}
				state = runtimeapi.ContainerState_CONTAINER_EXITED
			}
			if _, err := records.Delete(ctx, &containersapi.DeleteContainerRequest{ID: id}); err != nil {
				t.Fatal(err)
			}
			listed, err := s.Runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: id}})
			if err != nil || len(listed.GetContainers()) != 1 || listed.GetContainers()[0].GetState() != state {
				t.Errorf("listed: %v, %v, want %v", listed, err, state)
			}
			if alone {
				if err := s.RemoveContainer(t.Context(), id); err != nil {
					t.Errorf("RemoveContainer: %v", err)
				}
				_, err := s.ContainerStatus(t.Context(), id, false)
				wantCode(t, err, codes.NotFound)
			}
			if err := s.StopPodSandbox(t.Context(), p.id); err != nil {
				t.Errorf("StopPodSandbox: %v", err)
			}
			if err := s.RemovePodSandbox(t.Context(), p.id); err != nil {
				t.Errorf("RemovePodSandbox: %v", err)
			}
			_, err = s.PodSandboxStatus(t.Context(), p.id)
			wantCode(t, err, codes.NotFound)
			for _, one := range []string{id, other, p.id} {
				if _, err := records.Get(ctx, &containersapi.GetContainerRequest{ID: one}); status.Code(err) != codes.NotFound {
					t.Errorf("containerd's record of %s: %v, want NotFound", one, err)
				}
			}
		}
	}
}
