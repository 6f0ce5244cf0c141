package serve

import (
	"context"
	"path/filepath"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// rotateLogs rotates the logs of podrun's running containers that have become too large.
func rotateLogs(ctx context.Context, e *run.Node, running []observe.Running) {
	r, err := access.LogRotator(e)
	if err != nil {
		e.WarnOnce(problem.WarningOf(err))
		return
	}
	logs, pods := make([]podlog.Running, 0, len(running)), make(map[string]identity.Pod, len(running))
	for _, c := range running {
		logs = append(logs, podlog.Running{ID: c.ID, Path: filepath.Join(e.Layout().Logs(c.Pod), identity.LogPath(c.Container, c.Attempt))})
		pods[c.ID] = c.Pod
	}
	r.Ours = func(c podlog.Running) bool { return rotates(e.Layout(), pods[c.ID]) }
	if err := r.RotateAll(ctx, logs, e.Client.ReopenContainerLog); err != nil && ctx.Err() == nil {
		e.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// rotates reports whether serve rotates the logs of a pod. The containers of other programs have no
// checkpoint. A podrun process that runs a pod to completion rotates its logs when it has printed
// them: a rotation by serve could remove lines that the process has not printed yet.
func rotates(l identity.Layout, pod identity.Pod) bool {
	if !store.HasCheckpoint(l, pod.UID) {
		return false
	}
	owner, err := store.ReadOwner(l, pod)
	return err != nil || owner == nil || owner.Origin == nil || owner.Origin.Command != store.OriginRun || !owner.Live(l)
}
