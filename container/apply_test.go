package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
)

// fakeRuntime keeps containers in memory. Calls of CreateContainer fail with errs, one after the
// other. If makesAnyway is set, they create the container nevertheless.
type fakeRuntime struct {
	runtimeapi.RuntimeServiceClient
	containers  []*runtimeapi.Container
	errs        []error
	makesAnyway bool
	removeError error
	calls       int
}

func (f *fakeRuntime) CreateContainer(_ context.Context, r *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	var err error
	if f.calls < len(f.errs) {
		err = f.errs[f.calls]
	}
	f.calls++
	if err != nil && !f.makesAnyway {
		return nil, err
	}
	c := &runtimeapi.Container{Id: "c" + strconv.Itoa(f.calls), PodSandboxId: r.PodSandboxId, Metadata: r.Config.Metadata, Labels: r.Config.Labels}
	f.containers = append(f.containers, c)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.Id}, err
}

func (f *fakeRuntime) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: f.containers}, nil
}

func (f *fakeRuntime) ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{}, nil
}

func (f *fakeRuntime) RemoveContainer(_ context.Context, r *runtimeapi.RemoveContainerRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	if f.removeError != nil {
		return nil, f.removeError
	}
	var left []*runtimeapi.Container
	for _, c := range f.containers {
		if c.Id != r.ContainerId {
			left = append(left, c)
		}
	}
	f.containers = left
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func TestApply(t *testing.T) {
	deadline := status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	for _, tt := range []struct {
		name    string
		fake    fakeRuntime
		id      string
		wantErr string
		left    []string
	}{
		{name: "plain", id: "c1", left: []string{"old", "c1"}},
		// containerd issue 4604: the container was created after the call had timed out.
		{name: "made after a deadline", fake: fakeRuntime{errs: []error{deadline}, makesAnyway: true}, id: "c2", left: []string{"old", "c2"}},
		{name: "not made after a deadline", fake: fakeRuntime{errs: []error{deadline}}, wantErr: "deadline", left: []string{"old"}},
		{name: "refused", fake: fakeRuntime{errs: []error{errors.New("no such image")}}, wantErr: "no such image", left: []string{"old"}},
		{name: "twice too late", fake: fakeRuntime{errs: []error{deadline, deadline}, makesAnyway: true}, wantErr: "deadline", left: []string{"old", "c2"}},
		{name: "reserved, then too late", fake: fakeRuntime{errs: []error{errors.New(`name "app" is reserved for "c1"`), deadline}, makesAnyway: true},
			wantErr: `is reserved for "c1" (the retry got no answer either)`, left: []string{"old", "c2"}},
		{name: "can't be removed", fake: fakeRuntime{errs: []error{deadline}, makesAnyway: true, removeError: errors.New("busy")},
			wantErr: "container c1 was not removed: busy", left: []string{"old", "c1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &tt.fake
			config := mustConfig(t, input(corev1.Container{}), Late{Attempt: 1})
			// An earlier run of the same container must remain, with its logs.
			f.containers = []*runtimeapi.Container{{Id: "old", PodSandboxId: "s", Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Labels: config.Labels}}
			logs := t.TempDir()
			id, err := Apply(t.Context(), cri.New(f, nil, time.Minute), "s", config, &runtimeapi.PodSandboxConfig{LogDirectory: logs})
			if tt.wantErr == "" && (err != nil || id != tt.id) || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got %q, %v", id, err)
			}
			var left []string
			for _, c := range f.containers {
				left = append(left, c.Id)
			}
			if diff := cmp.Diff(tt.left, left); diff != "" {
				t.Errorf("left: -want +got:\n%s", diff)
			}
			if info, err := os.Stat(filepath.Join(logs, "app")); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("log directory: %v, %v", info, err)
			}
		})
	}
}

// TestApplyStopsWithItsContext checks that Apply does not retry after an interrupt.
func TestApplyStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &fakeRuntime{errs: []error{context.DeadlineExceeded}, makesAnyway: true}
	config := mustConfig(t, input(corev1.Container{}), Late{})
	if _, err := Apply(ctx, cri.New(f, nil, time.Minute), "s", config, &runtimeapi.PodSandboxConfig{LogDirectory: t.TempDir()}); err == nil || f.calls != 1 {
		t.Errorf("got %v after %d calls", err, f.calls)
	}
}
