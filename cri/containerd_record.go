package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Containerd calls containerd's own services, on the socket of the CRI. Its clients are nil for a client from New.
type Containerd struct {
	tasks   tasksapi.TasksClient
	records containersapi.ContainersClient
	timeout time.Duration
}

// recordLabel marks the container records that podrun creates in containerd.
const recordLabel = "podrun.dev/restored-record"

// errNoRecords is returned by restore if the runtime does not have containerd's own services.
var errNoRecords = errors.New("supported only with containerd")

// restore creates containerd's record of a container if the record is missing. It reports whether it may have
// created the record. The record requires neither the real specification nor the snapshot, because containerd
// finds a task by the container's ID.
func (c Containerd) restore(ctx context.Context, id string) (bool, error) {
	if c.records == nil {
		return false, errNoRecords
	}
	ctx = inContainerd(ctx)
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*containersapi.GetContainerResponse, error) {
		return c.records.Get(ctx, &containersapi.GetContainerRequest{ID: id})
	})
	switch status.Code(err) {
	case codes.NotFound:
	case codes.Unimplemented:
		return false, errNoRecords
	// The record exists, or the runtime is not containerd.
	default:
		return false, err
	}
	_, err = within(ctx, c.timeout, func(ctx context.Context) (*containersapi.CreateContainerResponse, error) {
		return c.records.Create(ctx, &containersapi.CreateContainerRequest{Container: &containersapi.Container{
			ID: id, Labels: map[string]string{recordLabel: "true"},
			Runtime: &containersapi.Container_Runtime{Name: "io.containerd.runc.v2"},
			Spec:    &anypb.Any{TypeUrl: "types.containerd.io/opencontainers/runtime-spec/1/Spec", Value: []byte("{}")},
		}})
	})
	// Another podrun process created the record.
	if status.Code(err) == codes.AlreadyExists {
		return false, nil
	}
	return true, err
}

// discard removes restored records if the runtime did not remove them with their containers. If it
// fails to remove them, RemoveRestored removes them later.
func (c Containerd) discard(ctx context.Context, restored []string) {
	for _, id := range restored {
		_ = c.RemoveRestored(ctx, id)
	}
}

// Restored returns the IDs of restored records older than age. Before podrun removes a container
// whose record is missing, it restores the record. If the podrun process is killed before the end
// of the removal, the restored record remains in containerd.
func (c Containerd) Restored(ctx context.Context, age time.Duration) ([]string, error) {
	if c.records == nil {
		return nil, nil
	}
	resp, err := within(inContainerd(ctx), c.timeout, func(ctx context.Context) (*containersapi.ListContainersResponse, error) {
		return c.records.List(ctx, &containersapi.ListContainersRequest{Filters: []string{fmt.Sprintf("labels.%q==true", recordLabel)}})
	})
	if status.Code(err) == codes.Unimplemented { // The runtime is not containerd.
		return nil, nil
	}
	var out []string
	for _, record := range resp.GetContainers() {
		if record.GetLabels()[recordLabel] != "" && time.Since(record.GetCreatedAt().AsTime()) > age {
			out = append(out, record.GetID())
		}
	}
	return out, err
}

// RemoveRestored removes a record that Restored returned. It is not an error if the record does not
// exist.
func (c Containerd) RemoveRestored(ctx context.Context, id string) error {
	_, err := within(inContainerd(ctx), c.timeout, func(ctx context.Context) (*emptypb.Empty, error) {
		return c.records.Delete(ctx, &containersapi.DeleteContainerRequest{ID: id})
	})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// inContainerd adds the CRI's containerd namespace to a context. containerd's own services
// require it.
func inContainerd(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
}
