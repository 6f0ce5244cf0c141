package critest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListContainers implements the CRI. The list is ordered by ID, because the order has no meaning
// with a real runtime either.
func (rt *Runtime) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return (&records{containers: rt.containersWith(r.GetFilter().GetLabelSelector())}).listContainers(r.GetFilter()), nil
}

// ListPodSandbox implements the CRI, in the order of ListContainers.
func (rt *Runtime) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return (&records{sandboxes: rt.sandboxesWith(r.GetFilter().GetLabelSelector())}).listSandboxes(r.GetFilter()), nil
}

// records is the state of a runtime at one moment, in the order of IDs.
type records struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

// records copies all sandboxes and containers. The caller must hold rt.mu.
func (rt *Runtime) records() *records {
	return &records{sandboxes: rt.sandboxesWith(nil), containers: rt.containersWith(nil)}
}

// sandboxesWith copies the sandboxes that have all of the labels, in the order of IDs. It examines
// every sandbox, as containerd does. The caller must hold rt.mu.
func (rt *Runtime) sandboxesWith(labels map[string]string) []*runtimeapi.PodSandbox {
	var out []*runtimeapi.PodSandbox
	for _, id := range sortedKeysOf(rt.sandboxes, func(s *sandbox) bool { return matchesLabels(s.config.GetLabels(), labels) }) {
		out = append(out, rt.sandboxes[id].summary())
	}
	return out
}

// containersWith is sandboxesWith for containers.
func (rt *Runtime) containersWith(labels map[string]string) []*runtimeapi.Container {
	var out []*runtimeapi.Container
	for _, id := range sortedKeysOf(rt.containers, func(c *container) bool { return matchesLabels(c.config.GetLabels(), labels) }) {
		out = append(out, rt.containers[id].summary())
	}
	return out
}

// list returns the response to a request for either of the lists.
func (all *records) list(req proto.Message) (proto.Message, error) {
	switch r := req.(type) {
	case *runtimeapi.ListPodSandboxRequest:
		return all.listSandboxes(r.GetFilter()), nil
	case *runtimeapi.ListContainersRequest:
		return all.listContainers(r.GetFilter()), nil
	}
	return nil, fmt.Errorf("the fault for stale lists does not support %T", req)
}

func (all *records) listSandboxes(f *runtimeapi.PodSandboxFilter) *runtimeapi.ListPodSandboxResponse {
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range all.sandboxes {
		if strings.HasPrefix(s.GetId(), f.GetId()) && matchesLabels(s.GetLabels(), f.GetLabelSelector()) &&
			(f.GetState() == nil || f.GetState().GetState() == s.GetState()) {
			resp.Items = append(resp.Items, s)
		}
	}
	return resp
}

func (all *records) listContainers(f *runtimeapi.ContainerFilter) *runtimeapi.ListContainersResponse {
	resp := &runtimeapi.ListContainersResponse{}
	for _, c := range all.containers {
		if strings.HasPrefix(c.GetId(), f.GetId()) && strings.HasPrefix(c.GetPodSandboxId(), f.GetPodSandboxId()) &&
			matchesLabels(c.GetLabels(), f.GetLabelSelector()) && (f.GetState() == nil || f.GetState().GetState() == c.GetState()) {
			resp.Containers = append(resp.Containers, c)
		}
	}
	return resp
}

func (s *sandbox) summary() *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.createdAt,
		Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
	}
}

func (c *container) summary() *runtimeapi.Container {
	return &runtimeapi.Container{
		Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.GetMetadata(),
		Image: c.config.GetImage(), ImageRef: c.image.ID, State: c.state, CreatedAt: c.createdAt,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
	}
}

// ContainerStatus implements the CRI. The pid in the verbose info is 0, which is not the ID of any
// process.
func (rt *Runtime) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	resp := &runtimeapi.ContainerStatusResponse{Status: c.status()}
	if r.GetVerbose() {
		if err := c.missing(); err != nil {
			return nil, err
		}
		if c.info == "" {
			info, err := json.Marshal(map[string]any{"sandboxID": c.sandbox.id, "pid": 0, "removing": false, "config": c.config, "runtimeSpec": rt.specOf(c)})
			if err != nil {
				return nil, status.Errorf(codes.Unknown, "failed to get verbose container info: %v", err)
			}
			c.info = string(info)
		}
		resp.Info = map[string]string{"info": c.info}
	}
	return resp, nil
}

// specOf returns the part of a container's OCI specification that depends on StateDir.
func (rt *Runtime) specOf(c *container) map[string]any {
	mounts := []map[string]any{}
	if rt.options.stateDir != "" {
		for _, name := range []string{"hostname", "resolv.conf"} {
			mounts = append(mounts, map[string]any{"destination": "/etc/" + name, "type": "bind",
				"source": filepath.Join(rt.options.stateDir, c.sandbox.id, name), "options": []string{"rbind", "rprivate", "rw"}})
		}
	}
	return map[string]any{"mounts": mounts}
}

func (c *container) status() *runtimeapi.ContainerStatus {
	startedAt := c.startedAt
	if startedAt == 0 && c.finishedAt != 0 && c.exit.reason != "StartError" {
		// containerd reports 0 if the start failed. CRI-O reports this time if the container was stopped before it was started.
		startedAt = time.Time{}.UnixNano()
	}
	return &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state,
		CreatedAt: c.createdAt, StartedAt: startedAt, FinishedAt: c.finishedAt,
		ExitCode: c.exit.code, Reason: c.exit.reason, Message: c.exit.message,
		Image: &runtimeapi.ImageSpec{Image: c.image.tag()}, ImageRef: c.image.repoDigest(),
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		Mounts: c.config.GetMounts(), LogPath: c.logPath(),
		Resources: &runtimeapi.ContainerResources{Linux: c.resources}, User: c.user,
	}
}

// identity returns the user of a container's first process as containerd 2.4 reports it. The
// supplemental groups are sorted, and include the primary group.
func (c *container) identity() *runtimeapi.ContainerUser {
	sc := c.config.GetLinux().GetSecurityContext()
	user := &runtimeapi.LinuxContainerUser{Uid: sc.GetRunAsUser().GetValue(), Gid: sc.GetRunAsGroup().GetValue()}
	if sc.GetRunAsUser() == nil {
		user.Uid = c.image.uid()
	}
	user.SupplementalGroups = append([]int64{user.Gid}, sc.GetSupplementalGroups()...)
	slices.Sort(user.SupplementalGroups)
	return &runtimeapi.ContainerUser{Linux: user}
}

// UpdateContainerResources implements the CRI. It stores the resources, and the status shows
// them.
func (rt *Runtime) UpdateContainerResources(_ context.Context, r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(r.GetContainerId())
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "failed to find container: not found")
	}
	c.resources = r.GetLinux()
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// members lists a sandbox's containers, oldest first. The caller must hold rt.mu.
func (rt *Runtime) members(s *sandbox) []*container {
	var got []*container
	for _, c := range rt.containers {
		if c.sandbox == s {
			got = append(got, c)
		}
	}
	slices.SortFunc(got, func(a, b *container) int { return int(a.createdAt - b.createdAt) })
	return got
}

// sortedKeysOf returns the sorted keys of those values for which chosen returns true.
func sortedKeysOf[T any](m map[string]T, chosen func(T) bool) []string {
	var keys []string
	for key, value := range m {
		if chosen(value) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// unique returns the record whose ID is id, or the only one whose ID begins with id.
func unique[T any](records map[string]T, id string) (T, bool) {
	var none T
	if r, ok := records[id]; ok {
		return r, true
	}
	if id == "" {
		return none, false
	}
	found := none
	n := 0
	for k, r := range records {
		if strings.HasPrefix(k, id) {
			found, n = r, n+1
		}
	}
	if n != 1 {
		return none, false
	}
	return found, true
}

func matchesLabels(labels, selector map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
