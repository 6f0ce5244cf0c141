package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
)

// DebugOptions are the options of Debug.
type DebugOptions struct {
	Container    corev1.EphemeralContainer // must have a name (DebugTarget.Name)
	Timeout      time.Duration             // limits the whole operation; 0 for no limit
	AllowKubelet bool
}

// DebugTarget is a running pod to which an ephemeral container is added.
type DebugTarget struct {
	known observe.Known
	obs   *lifecycle.Observed
}

// FindDebugTarget finds the running pod to which Debug can add a container. The error is of kind Failed if the pod is not
// found or does not run, and Runtime if the runtime does not respond.
func FindDebugTarget(ctx context.Context, n *node.Node, namespace, name string) (DebugTarget, error) {
	seen, err := lookup.ObservePod(ctx, n, namespace, name)
	if err != nil {
		return DebugTarget{}, err
	}
	ended := lifecycle.Next(seen.Pod, lifecycle.World{Observed: seen.Obs, Now: time.Now(), Since: lifecycle.StartTime(seen.Pod, seen.Obs)}).Ended
	if sandbox := seen.Obs.Sandbox(); sandbox == nil || !sandbox.Ready || ended {
		return DebugTarget{}, &problem.Error{Kind: problem.Failed, Object: "pod " + seen.ID.String(), Err: errors.New("is not running: an ephemeral container requires a running pod"),
			Hint: "run 'podrun get " + seen.ID.Name + "' to show its state, or 'podrun start' to start a stopped pod"}
	}
	return DebugTarget{known: observe.Known{ID: seen.ID, Pod: seen.Pod}, obs: seen.Obs}, nil
}

// Name returns a name for an ephemeral container in the format of `kubectl debug`:
// debugger- and five random characters.
func (t DebugTarget) Name() string {
	for {
		name := "debugger-" + rand.String(5)
		if lifecycle.FindContainer(t.known.Pod, name).Container == nil {
			return name
		}
	}
}

// Debug adds an ephemeral container to a pod, starts it, and returns it as a target for Attach. If
// another podrun process owns the pod, Debug takes over the pod, and returns the ownership
// afterwards. The error is one of those of Apply, or of kind Usage if the container's name is
// already in use or its target container does not exist. It is not an error if the container has
// already exited: the returned target has its ID, and running is false. If the container could not
// be started, Debug removes it from the pod again.
func Debug(ctx context.Context, n *node.Node, t DebugTarget, o DebugOptions) (target access.Target, running bool, err error) {
	if err := t.check(&o.Container); err != nil {
		return access.Target{}, false, err
	}
	results, err := StartPods(ctx, n, []Known{t.known}, ApplyOptions{Timeout: o.Timeout, AllowKubelet: o.AllowKubelet,
		Wait: lifecycle.GoalDebugged(o.Container.Name), Debug: &o.Container})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return access.Target{}, false, err
	}
	target = access.Target{Pod: t.known.ID, Container: o.Container.Name, Stdin: o.Container.Stdin, TTY: o.Container.TTY}
	obs, err := n.Observe(ctx, t.known.ID.UID)
	if err != nil {
		return target, false, err
	}
	c := obs.Newest(o.Container.Name)
	if c == nil {
		return target, false, target.NotRunning(nil)
	}
	target.ID = c.ID
	return target, c.State == lifecycle.Running, nil
}

// check refuses container names that the API server would refuse.
func (t DebugTarget) check(c *corev1.EphemeralContainer) error {
	wrong := func(format string, args ...any) error {
		return &problem.Error{Kind: problem.Usage, Object: "pod " + t.known.ID.String(), Err: fmt.Errorf(format, args...)}
	}
	var names []string
	for _, s := range lifecycle.SpecContainers(t.known.Pod) {
		if s.Container.Name == c.Name {
			return wrong("it already has a container %q, and an ephemeral container cannot be changed or restarted", c.Name)
		}
		if !s.Ephemeral {
			names = append(names, s.Container.Name)
		}
		if s.Container.Name == c.TargetContainerName && s.Ephemeral {
			return wrong("--target=%s is an ephemeral container, which cannot be a target", c.TargetContainerName)
		}
	}
	if c.TargetContainerName == "" {
		return nil
	}
	if lifecycle.FindContainer(t.known.Pod, c.TargetContainerName).Container == nil {
		return wrong("it has no container %q for --target; it has %s", c.TargetContainerName, strings.Join(names, ", "))
	}
	if have := t.obs.Container(c.TargetContainerName); have == nil || have.State != lifecycle.Running {
		return access.Target{Pod: t.known.ID, Container: c.TargetContainerName}.NotRunning(have)
	}
	return nil
}
