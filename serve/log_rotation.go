package serve

import (
	"context"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// rotateLogs rotates the logs of podrun's running containers that have become too large.
func rotateLogs(ctx context.Context, e *run.Engine, running []observe.Running) {
	size, err := e.Settings.LogMaxSize()
	if err != nil {
		e.WarnOnce(problem.WarningOf(err))
		return
	}
	r := podlog.Rotator{MaxSize: size, MaxFiles: int(e.Settings.ContainerLogMaxFiles), Workers: int(e.Settings.ContainerLogMaxWorkers),
		Ended: func(ctx context.Context, id string) bool { return ended(ctx, e.Client, id) }}
	logs, uids := make([]podlog.Running, 0, len(running)), make(map[string]string, len(running))
	for _, c := range running {
		logs = append(logs, podlog.Running{ID: c.ID, Path: filepath.Join(e.Layout().Logs(c.Pod), identity.LogPath(c.Container, c.Attempt))})
		uids[c.ID] = c.Pod.UID
	}
	// The containers of other programs have no checkpoint.
	r.Ours = func(c podlog.Running) bool { return store.HasCheckpoint(e.Layout(), uids[c.ID]) }
	if err := r.RotateAll(ctx, logs, e.Client.ReopenContainerLog); err != nil && ctx.Err() == nil {
		e.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// ended reports whether a container has ended since the list of running containers was read. A container that
// was removed with its log has ended too.
func ended(ctx context.Context, client *cri.Client, id string) bool {
	c, err := client.ContainerStatus(ctx, id, false)
	if err != nil {
		return status.Code(err) == codes.NotFound
	}
	return c.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING
}
