package sandbox

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
)

// fakeRuntime keeps sandboxes in memory. If runError is set, RunPodSandbox returns it; if
// makesAnyway is also set, RunPodSandbox creates the sandbox nevertheless.
type fakeRuntime struct {
	runtimeapi.RuntimeServiceClient
	sandboxes   []*runtimeapi.PodSandbox
	handlers    []string
	runError    error
	makesAnyway bool
	noIP        bool
	stopError   map[string]error // by sandbox ID
	stopped     []string
}

func (f *fakeRuntime) client(t *testing.T) *cri.Client {
	t.Helper()
	return cri.New(f, nil, time.Minute)
}

func (f *fakeRuntime) RunPodSandbox(_ context.Context, r *runtimeapi.RunPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	f.handlers = append(f.handlers, r.RuntimeHandler)
	if f.runError != nil && !f.makesAnyway {
		return nil, f.runError
	}
	c := r.Config
	s := &runtimeapi.PodSandbox{Id: "s" + strconv.Itoa(len(f.sandboxes)), Metadata: c.Metadata, Labels: c.Labels, Annotations: c.Annotations}
	f.sandboxes = append(f.sandboxes, s)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.Id}, f.runError
}

func (f *fakeRuntime) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, nil
}

func (f *fakeRuntime) PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest, ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	net := &runtimeapi.PodSandboxNetworkStatus{Ip: "10.1.0.5", AdditionalIps: []*runtimeapi.PodIP{{Ip: "FD00:0::5"}}}
	if f.noIP {
		net = &runtimeapi.PodSandboxNetworkStatus{}
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Network: net}}, nil
}

func (f *fakeRuntime) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	var out []*runtimeapi.PodSandbox
	for _, s := range f.sandboxes {
		match := true
		for k, v := range r.GetFilter().GetLabelSelector() {
			match = match && s.Labels[k] == v
		}
		if match {
			out = append(out, s)
		}
	}
	return &runtimeapi.ListPodSandboxResponse{Items: out}, nil
}

func (f *fakeRuntime) StopPodSandbox(_ context.Context, r *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	if err := f.stopError[r.PodSandboxId]; err != nil {
		return nil, err
	}
	f.stopped = append(f.stopped, r.PodSandboxId)
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (f *fakeRuntime) RemovePodSandbox(_ context.Context, r *runtimeapi.RemovePodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error) {
	if !slices.Contains(f.stopped, r.PodSandboxId) {
		return nil, status.Error(codes.FailedPrecondition, "sandbox runs")
	}
	f.sandboxes = slices.DeleteFunc(f.sandboxes, func(s *runtimeapi.PodSandbox) bool { return s.Id == r.PodSandboxId })
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// ids returns the IDs of the sandboxes.
func (f *fakeRuntime) ids() []string {
	var out []string
	for _, s := range f.sandboxes {
		out = append(out, s.Id)
	}
	return out
}
