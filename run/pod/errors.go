package pod

import (
	"errors"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// RuntimeError returns an error of kind Runtime that names the pod.
func RuntimeError(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Err: err}
}

// OfPod adds the pod to an error that names only a container, because a command may have several pods.
func OfPod(id identity.Pod, err error) error {
	e, ok := err.(*problem.Error)
	if !ok || !strings.HasPrefix(e.Object, "container ") {
		return err
	}
	named := *e
	named.Object = "pod " + id.String() + ": " + e.Object
	return &named
}

// WithoutPodName removes the pod's name from an error, because the caller adds the name.
func WithoutPodName(id identity.Pod, err error) error {
	if e, ok := err.(*problem.Error); ok && e.Object == "pod "+id.String() {
		short := *e
		short.Object = ""
		return &short
	}
	return err
}

// InStep adds to an error the step of the pod's start in which the error occurred.
func InStep(id identity.Pod, step string, err error) error {
	out := &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Op: step, Err: WithoutPodName(id, err)}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		out.Kind = e.Kind
		out.Hint = e.Hint
	}
	return out
}

// OfRuntime adds the pod to an error of the runtime. It does not change other errors, such as the
// error that another command now owns the pod, because they already name the pod.
func (p *Pod) OfRuntime(err error) error {
	if _, named := errors.AsType[*problem.Error](err); named || err == nil || errors.Is(err, store.ErrChanged) {
		return err
	}
	return RuntimeError(p.Plan.ID, err)
}
