package container

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// Apply creates the container and returns its ID. It first creates the container's log directory,
// because runtimes do not create it. If an earlier request timed out but created a container, that
// container still has the name (containerd issues 4604 and 13867). In this case, Apply removes the
// container and retries once. If the runtime does not respond to the retry, Apply returns the first
// error, because it contains the cause.
func Apply(ctx context.Context, client *cri.Client, sandboxID string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	logs := filepath.Join(sandbox.GetLogDirectory(), filepath.Dir(config.GetLogPath()))
	if err := hostfile.MakeDirs(logs, 0o755); err != nil {
		return "", fmt.Errorf("create log directory: %w", err)
	}
	create := func() (string, error) {
		answered, stop := cri.ExtendContext(ctx)
		defer stop()
		return client.CreateContainer(answered, sandboxID, config, sandbox)
	}
	id, err := create()
	if err == nil || !inDoubt(err) || ctx.Err() != nil {
		return id, err
	}
	removed, rerr := removeStray(ctx, client, sandboxID, config)
	if rerr == nil && removed == 0 && cri.Reserved(err) {
		return awaitName(ctx, client, sandboxID, config, create, err)
	}
	if rerr != nil {
		return "", errors.Join(err, rerr)
	}
	if removed == 0 {
		return "", err
	}
	id, again := create()
	if again != nil && cri.Interrupted(again) {
		return "", fmt.Errorf("%w (the retry got no answer either)", err)
	}
	return id, again
}

// awaitName creates a container if the runtime has reserved the name for a container that it does
// not list. This happens while the runtime is still processing the call of a podrun process that
// was killed. If that call creates a container, awaitName removes that container.
func awaitName(ctx context.Context, client *cri.Client, sandboxID string, config *runtimeapi.ContainerConfig, create func() (string, error), err error) (id string, _ error) {
	err = cri.RetryWhile(ctx, cri.BusyFor, func() (again bool, _ error) {
		if _, rerr := removeStray(ctx, client, sandboxID, config); rerr != nil {
			return false, errors.Join(err, rerr)
		}
		id, err = create()
		return cri.Reserved(err), err
	})
	return id, err
}

// removeStray removes containers that have the sandbox, name and attempt of config, and whose IDs
// podrun does not know. It returns the number of removed containers.
func removeStray(ctx context.Context, client *cri.Client, sandboxID string, config *runtimeapi.ContainerConfig) (int, error) {
	labels := config.GetLabels()
	found, err := client.ListContainers(ctx, map[string]string{
		identity.LabelPodUID:        labels[identity.LabelPodUID],
		identity.LabelContainerName: labels[identity.LabelContainerName],
	})
	if err != nil {
		return 0, fmt.Errorf("find the container that the runtime created: %w", err)
	}
	removed := 0
	for _, c := range found {
		if c.GetPodSandboxId() != sandboxID || c.GetMetadata().GetAttempt() != config.GetMetadata().GetAttempt() {
			continue
		}
		if err := client.RemoveContainer(ctx, c.GetId()); err != nil {
			return removed, fmt.Errorf("container %s was not removed: %w", c.GetId(), err)
		}
		removed++
	}
	return removed, nil
}

// inDoubt reports whether the runtime may have created a container although the call returned err.
// The error for a reserved name has the code Unknown.
func inDoubt(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded || cri.Reserved(err)
}
