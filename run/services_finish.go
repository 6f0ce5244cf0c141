package run

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/servicesync"
)

// FinishServices is the last step of a command that may have changed pods: it makes the names and rules of
// Services match the pods, unless the operation has done so. It does so after an interrupted command, too.
func FinishServices(ctx context.Context, n *node.Node) {
	if n.ServicesSynced.Load() {
		return
	}
	ctx, cancel := wait.CleanupContext(ctx, lease.UndoTimeout)
	defer cancel()
	omitted, err := servicesync.Sync(ctx, n)
	if err != nil {
		omitted = append(omitted, problem.WarningOf(err))
	}
	n.SendWarnings(omitted)
}

// DeleteServices removes Services, and synchronizes names and rules. The result contains only Services
// that existed.
func DeleteServices(ctx context.Context, n *node.Node, selected func(*corev1.Service, string) bool) (changes []servicesync.Change, err error) {
	changes, err = servicesync.Delete(ctx, n, selected, func(ctx context.Context) error { return servicesync.SyncAndWarn(ctx, n) })
	n.ServicesSynced.Store(err == nil)
	return changes, err
}
