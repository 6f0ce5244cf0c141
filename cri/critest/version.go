package critest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SetCondition sets a condition in Status: runtimeapi.RuntimeReady, runtimeapi.NetworkReady
// or another one.
func (rt *Runtime) SetCondition(kind string, holds bool, reason, message string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	changed := &runtimeapi.RuntimeCondition{Type: kind, Status: holds, Reason: reason, Message: message}
	var all []*runtimeapi.RuntimeCondition
	for _, c := range rt.conditions {
		if c.GetType() == kind {
			c, changed = changed, nil
		}
		all = append(all, c)
	}
	if changed != nil {
		all = append(all, changed)
	}
	rt.conditions = all
}

// Version implements the CRI.
func (rt *Runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: rt.options.runtimeName, RuntimeVersion: rt.options.version, RuntimeApiVersion: "v1",
	}, nil
}

// SandboxImage is the image of the sandboxes. It is always present.
const SandboxImage = "registry.k8s.io/pause:3.6"

// Status implements the CRI.
func (rt *Runtime) Status(_ context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	resp := &runtimeapi.StatusResponse{
		Status:          &runtimeapi.RuntimeStatus{Conditions: rt.conditions},
		RuntimeHandlers: rt.options.handlers, Features: rt.options.features,
	}
	if r.GetVerbose() {
		resp.Info = rt.options.profile.info()
	}
	return resp, nil
}

// RuntimeConfig implements the CRI, if the test has set a driver.
func (rt *Runtime) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	if rt.options.driver == nil {
		return nil, status.Error(codes.Unimplemented, "unknown method RuntimeConfig for service runtime.v1.RuntimeService")
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: *rt.options.driver}}, nil
}
