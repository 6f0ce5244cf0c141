package access

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
)

// LogsRequest selects the containers whose logs are read.
type LogsRequest struct {
	Namespace, Name string
	Container       string // only this container
	All             bool   // all app containers and sidecars
	Init            bool   // with All: include init containers
	Previous        bool   // the previous instance of the container
}

// Logs finds the log files of a pod's containers, in the order of its spec. The error is of
// kind Failed if the pod, or the requested instance of the container, is not found. It is of
// kind Usage if the pod has no such container, and of kind Runtime if the runtime does not
// respond.
func Logs(ctx context.Context, n *node.Node, r LogsRequest) ([]reconcile.Log, error) {
	seen, err := lookup.ObservePod(ctx, n, r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	object, obs := "pod "+seen.ID.String(), seen.Obs
	names, err := logNames(seen.Pod, obs, r)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Usage, Object: object, Err: err, Hint: "name one of them with -c, or omit -c for the logs of all"}
	}
	var out []reconcile.Log
	for _, name := range names {
		c := obs.Newest(name)
		if c != nil && r.Previous {
			c = obs.Previous(c)
		}
		switch {
		case c == nil && r.Container == "":
		case c == nil && r.Previous:
			return nil, &problem.Error{Kind: problem.Failed, Object: object + ": container " + name, Err: errors.New("has no previous instance")}
		case c == nil:
			return nil, &problem.Error{Kind: problem.Failed, Object: object + ": container " + name, Err: errors.New("has not been created yet")}
		default:
			out = append(out, reconcile.Log{Pod: seen.ID, Container: name, ID: c.ID, Path: c.LogPath, State: c.State, FinishedAt: c.FinishedAt})
		}
	}
	if len(out) == 0 {
		missing := "a log yet"
		if r.Previous {
			missing = "a previous instance"
		}
		return nil, &problem.Error{Kind: problem.Failed, Object: object, Err: errors.New("none of its containers has " + missing)}
	}
	return out, nil
}

// logNames lists the requested containers. If the request names none, the list omits ephemeral
// containers. In that case, it includes init containers only if no app container has been created
// yet.
func logNames(pod *corev1.Pod, obs *lifecycle.Observed, r LogsRequest) ([]string, error) {
	var all, apps []string
	for _, c := range lifecycle.SpecContainers(pod) {
		name := c.Container.Name
		if name == r.Container {
			return []string{name}, nil
		}
		all = append(all, name)
		if !c.Init && !c.Ephemeral || podutil.IsRestartableInitContainer(c.Container) {
			apps = append(apps, name)
		}
	}
	switch {
	case r.Container != "":
		return nil, &UnknownContainer{Asked: "container", Name: r.Container, Has: listContainers(pod)}
	case r.Init || !lifecycle.AnyAppContainer(pod, obs):
		return all, nil
	}
	return apps, nil
}

// Alive reports whether a container runs. While the runtime is unavailable, it returns
// true: containers survive a restart of the runtime.
func Alive(ctx context.Context, n *node.Node, containerID string) (bool, error) {
	c, err := observe.ReadContainer(ctx, n.Client, containerID, "", false)
	switch status.Code(errors.Unwrap(err)) {
	case codes.NotFound:
		return false, nil
	case codes.Unavailable:
		return true, nil
	}
	return c.State == lifecycle.Running || c.State == lifecycle.Created, err
}

// LogRotator returns a rotator with the limits that the settings specify. The error concerns the
// settings.
func LogRotator(n *node.Node) (*podlog.Rotator, error) {
	size, err := n.Settings.LogMaxSize()
	if err != nil {
		return nil, err
	}
	// A container may have ended since the list of running containers was read. A container that was
	// removed with its log has ended too.
	ended := func(ctx context.Context, id string) bool {
		c, err := n.Client.ContainerStatus(ctx, id, false)
		if err != nil {
			return status.Code(err) == codes.NotFound
		}
		return c.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return &podlog.Rotator{
		MaxSize:  size,
		MaxFiles: int(n.Settings.ContainerLogMaxFiles),
		Workers:  int(n.Settings.ContainerLogMaxWorkers),
		Ended:    ended,
	}, nil
}
