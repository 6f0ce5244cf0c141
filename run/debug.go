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

// DebugInput is the input of Debug.
type DebugInput struct {
	Namespace string
	Named     lookup.Ref                // the pod, or a workload that defines it
	Container corev1.EphemeralContainer // without a name, Debug chooses one
	// Chosen is called with the name that Debug has chosen; it may be nil.
	Chosen       func(name string)
	Timeout      time.Duration // limits the whole operation; 0 for no limit
	AllowKubelet bool
}

// DebugReport is the report of Debug.
type DebugReport struct {
	Report  // one entry for the pod
	Target  access.Target
	Running bool // false if the container has already exited
}

// debugged is the running pod to which Debug adds a container.
type debugged struct {
	known observe.Known
	obs   *lifecycle.Observed
}

// Debug adds an ephemeral container to a running pod, starts it, and returns it as a target for Attach. If
// another podrun process owns the pod, Debug takes over the pod, and returns the ownership
// afterwards. The error is one of those of Apply, of kind Failed if the pod does not run, or of kind Usage if the
// container's name is already in use or its target container does not exist. The pod's entry has the error of a
// container that could not be started: Debug then has removed it from the pod again.
func Debug(ctx context.Context, n *node.Node, in DebugInput) (out DebugReport, err error) {
	t, err := findDebugged(ctx, n, in)
	if err != nil {
		return out, err
	}
	c := in.Container
	if c.Name == "" {
		c.Name = t.freeName()
		if in.Chosen != nil {
			in.Chosen(c.Name)
		}
	}
	if err := t.check(&c); err != nil {
		return out, err
	}
	results, err := StartPods(ctx, n, []Known{t.known}, ApplyOptions{
		Timeout:      in.Timeout,
		AllowKubelet: in.AllowKubelet,
		Wait:         lifecycle.GoalDebugged(c.Name),
		Debug:        &c,
	})
	out.Report = ReportOf(results)
	if err != nil || out.Err() != nil {
		return out, err
	}
	out.Target = access.Target{Pod: t.known.ID, Container: c.Name, Stdin: c.Stdin, TTY: c.TTY}
	obs, err := n.Observe(ctx, t.known.ID.UID)
	if err != nil {
		return out, err
	}
	started := obs.Newest(c.Name)
	if started == nil {
		return out, out.Target.NotRunning(nil)
	}
	out.Target.ID = started.ID
	out.Running = started.State == lifecycle.Running
	return out, nil
}

// findDebugged finds the running pod.
func findDebugged(ctx context.Context, n *node.Node, in DebugInput) (debugged, error) {
	name, err := in.Named.Resolve(n.Layout(), in.Namespace)
	if err != nil {
		return debugged{}, err
	}
	seen, err := lookup.ObservePod(ctx, n, in.Namespace, name)
	if err != nil {
		return debugged{}, err
	}
	ended := lifecycle.Next(seen.Pod, lifecycle.World{Observed: seen.Obs, Now: time.Now(), Since: lifecycle.StartTime(seen.Pod, seen.Obs)}).Ended
	if sandbox := seen.Obs.Sandbox(); sandbox == nil || !sandbox.Ready || ended {
		return debugged{}, &problem.Error{Kind: problem.Failed, Object: "pod " + seen.ID.String(),
			Err:  errors.New("is not running: an ephemeral container requires a running pod"),
			Hint: "run 'podrun get " + seen.ID.Name + "' to show its state, or 'podrun start' to start a stopped pod"}
	}
	return debugged{known: observe.Known{ID: seen.ID, Pod: seen.Pod}, obs: seen.Obs}, nil
}

// freeName returns a name for an ephemeral container in the format of `kubectl debug`:
// debugger- and five random characters.
func (t debugged) freeName() string {
	for {
		name := "debugger-" + rand.String(5)
		if lifecycle.FindContainer(t.known.Pod, name).Container == nil {
			return name
		}
	}
}

// check refuses container names that the API server would refuse.
func (t debugged) check(c *corev1.EphemeralContainer) error {
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
