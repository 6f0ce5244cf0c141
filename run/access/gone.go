package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// The causes if an operation on a container fails because the container exits, or is removed, during the
// operation.
var (
	ErrEnded   = errors.New("is not running: it has just exited")
	ErrRemoved = errors.New("it has just been removed")
)

// recordedWithin is the maximum time between the exit of a container and its record in the runtime, and between the
// removal of a container's log and of the container. recordEvery is the interval at which podrun reads the record.
const (
	recordedWithin = time.Second
	recordEvery    = 50 * time.Millisecond
)

// fault is like ExecTarget.fault, and explains the error with explainGone.
func fault(ctx context.Context, n *node.Node, t Target, op string, err error) (int, error) {
	code, err := t.Fault(op, err)
	return explainGone(ctx, n, t, code, err)
}

// explainGone returns the exit code and the error of an operation on a container that podrun has observed. If the
// container has exited or was removed since then, the error states this instead of the runtime's text. The state of
// the container decides, because runtimes have many texts for this, and some of them have other causes, too.
func explainGone(ctx context.Context, n *node.Node, t Target, code int, err error) (int, error) {
	fault, ok := errors.AsType[*problem.Error](err)
	ended, lost := errors.Is(err, ErrEnded), code != 0 && cri.ProcessLost(err)
	if !ok || ctx.Err() != nil || !ended && !lost && fault.Kind != problem.Runtime && code != ExecNotExecutable {
		return code, err
	}
	limit := time.Duration(0)
	if lost {
		limit = recordedWithin
	}
	st, unknown := statusAfter(ctx, n, t.ID, runtimeapi.ContainerState_CONTAINER_RUNNING, limit)
	switch {
	case status.Code(unknown) == codes.NotFound:
		return 0, removed(ctx, n, t)
	case unknown == nil && st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED:
		why := fmt.Errorf("%w with %d%s", ErrEnded, st.GetExitCode(), inParentheses(st.GetReason()))
		return 0, &problem.Error{Kind: problem.Failed, Object: t.object(), Err: why, Hint: t.endedHint()}
	}
	return code, err
}

// statusAfter returns the status of a container when it is no longer in a state, or after the limit.
func statusAfter(ctx context.Context, n *node.Node, id string, from runtimeapi.ContainerState, limit time.Duration) (*runtimeapi.ContainerStatus, error) {
	for end := time.Now().Add(limit); ; {
		resp, err := n.Client.ContainerStatus(ctx, id, false)
		if err != nil || resp.GetStatus().GetState() != from || !time.Now().Before(end) || wait.Sleep(ctx, recordEvery) != nil {
			return resp.GetStatus(), err
		}
	}
}

// removed returns the error for a container that was removed after podrun had observed it. If its pod was deleted,
// the error is that of a pod that does not exist, with the reason.
func removed(ctx context.Context, n *node.Node, t Target) error {
	known, err := lookup.Find(ctx, n, lookup.Selector{Namespace: t.Pod.Namespace, Names: []string{t.Pod.Name}})
	if err == nil && !slices.ContainsFunc(known, func(k observe.Known) bool { return k.ID.UID == t.Pod.UID }) {
		return deleted(t.Pod)
	}
	return &problem.Error{Kind: problem.Failed, Object: t.object(), Err: errGone(), Hint: "run 'podrun describe " + t.Pod.Name + "' for details"}
}

// deleted returns the error for a pod that was deleted after podrun had observed it.
func deleted(id identity.Pod) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + id.String(), Err: errGone(), Hint: "run 'podrun get -A' to list all pods"}
}

func errGone() error { return fmt.Errorf("%w: %w", problem.ErrNotFound, ErrRemoved) }

// ExplainLog returns the error for a log that Logs has found and that podrun could not open. If the container was
// removed since then, the error states this. podrun removes the log of a container that has exited before the
// container.
func ExplainLog(ctx context.Context, n *node.Node, l reconcile.Log, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return err
	}
	owner, failed := store.ReadOwner(n.Layout(), l.Pod)
	if failed != nil || owner == nil || !owner.Live(n.Layout()) || !owner.Removes() {
		_, unknown := statusAfter(ctx, n, l.ID, runtimeapi.ContainerState_CONTAINER_EXITED, recordedWithin)
		if status.Code(unknown) != codes.NotFound {
			return err
		}
	}
	return removed(ctx, n, Target{Pod: l.Pod, Container: l.Container, ID: l.ID})
}
