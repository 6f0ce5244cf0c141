package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// RemoveDead removes earlier runs of the containers of this node's pods when the disk is full. It also
// removes their logs. It keeps the newest run of each container, which determines its restart count,
// back-off and status. It returns an error that joins the errors of individual containers.
func RemoveDead(ctx context.Context, n *node.Node) error {
	list, err := n.Client.ListContainers(ctx, nil)
	if err != nil {
		return fmt.Errorf("list the containers: %w", err)
	}
	var errs []error
	for _, c := range dead(list) {
		id := identity.Pod{
			Namespace: c.Labels[identity.LabelPodNamespace],
			Name:      c.Labels[identity.LabelPodName],
			UID:       c.Labels[identity.LabelPodUID],
		}
		if !identity.SafeUID(id.UID) || !store.HasCheckpoint(n.Layout(), id.UID) {
			// The container belongs to another program.
			continue
		}
		if err := n.Client.RemoveContainer(ctx, c.Id); err != nil {
			errs = append(errs, fmt.Errorf("pod %s: remove a previous instance of a container (%s): %w", id, observe.ShortID(c.Id), err))
			continue
		}
		name := c.Labels[identity.LabelContainerName]
		if err := os.Remove(n.Layout().LegacyLog(id, name, c.Id)); err != nil && !os.IsNotExist(err) {
			errs = append(errs, err)
		}
		errs = append(errs, podlog.RemoveLog(filepath.Join(n.Layout().Logs(id), identity.LogPath(name, c.GetMetadata().GetAttempt()))))
	}
	return errors.Join(errs...)
}

// dead returns the exited runs of containers that have been started again since.
func dead(list []*runtimeapi.Container) []*runtimeapi.Container {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *runtimeapi.Container) int { // the same order as lifecycle.Observed.Order
		return cmp.Or(cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()), cmp.Compare(b.CreatedAt, a.CreatedAt))
	})
	started := map[[2]string]bool{}
	var out []*runtimeapi.Container
	for _, c := range list {
		key := [2]string{c.Labels[identity.LabelPodUID], c.Labels[identity.LabelContainerName]}
		ended := c.State == runtimeapi.ContainerState_CONTAINER_EXITED
		if ended && started[key] {
			out = append(out, c)
		}
		started[key] = started[key] || ended || c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return out
}
