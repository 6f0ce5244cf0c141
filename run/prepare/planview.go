package prepare

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/resource"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/volume"
)

// PlanView is a plan as printed by `podrun plan`. Its format is stable. It contains the CRI messages,
// with placeholders in parentheses for values that are known only later.
type PlanView struct {
	Pod        identity.Pod       `json:"pod"`
	Change     Change             `json:"change"`
	Changes    []string           `json:"changes,omitempty"` // the paths of the fields that differ from the existing pod
	Replaces   []identity.Pod     `json:"replaces,omitempty"`
	Preempts   []identity.Pod     `json:"preempts,omitempty"` // pods that podrun stops to free resources
	QOSClass   corev1.PodQOSClass `json:"qosClass"`
	Warnings   []event.Event      `json:"warnings,omitempty"`
	Cgroup     cgroup.Plan        `json:"cgroup"`
	Volumes    volume.Plan        `json:"volumes"`
	Images     []imagepull.Image  `json:"images"`
	Sandbox    SandboxView        `json:"sandbox"`
	Containers []ContainerView    `json:"containers"`
	StartOrder string             `json:"startOrder,omitempty"` // strict or parallel; absent if the order is the kubelet's
	// UserNamespace explains the effect of the setting userNamespaces on the pod; absent if the
	// setting is off.
	UserNamespace string `json:"userNamespace,omitempty"`
	// Rollback are the limits of the update; absent if podrun does not roll it back.
	Rollback *RollbackView `json:"rollback,omitempty"`
}

// SandboxView is the request that creates the sandbox.
type SandboxView struct {
	RuntimeHandler string `json:"runtimeHandler"`
	Config         any    `json:"config"`
}

// ContainerView is the request that creates a container, and the container's postStart hook. CreatedAhead
// is true if podrun creates the container while the previous app container starts, or while the previous
// init container runs.
type ContainerView struct {
	Name      string                   `json:"name"`
	Kind      string                   `json:"kind"`   // init, sidecar or app
	Config    any                      `json:"config"` // null if podrun could not create the configuration; the problems then explain why
	PostStart *corev1.LifecycleHandler `json:"postStart,omitempty"`

	CreatedAhead bool `json:"createdAhead,omitempty"`
}

// RollbackView are the limits after which podrun serve rolls back an update.
type RollbackView struct {
	Deadline string `json:"deadline"`
	MinReady string `json:"minReady"`
}

// View returns the target in printable form, without the values of Secrets.
func (t Target) View() (PlanView, error) { return t.view(container.Plan.Redacted) }

// ViewSecrets is like View, but includes the values of Secrets.
func (t Target) ViewSecrets() (PlanView, error) {
	return t.view(func(c container.Plan) container.Plan { return c })
}

func (t Target) view(shown func(container.Plan) container.Plan) (PlanView, error) {
	p := t.Plan
	v := PlanView{
		Pod: p.ID, Change: t.Change, Changes: t.Changes, Preempts: t.Preempts, QOSClass: resource.QOSClass(p.Pod), Warnings: p.Warnings,
		Cgroup: p.Cgroup, Volumes: p.Volumes, Images: p.Images.Images,
		Sandbox: SandboxView{RuntimeHandler: p.Sandbox.Handler, Config: cri.Value(p.Sandbox.Config)},
	}
	v.UserNamespace = t.userNamespace()
	if p.StartOrder != nodeconfig.StartInOrder {
		v.StartOrder = p.StartOrder
	}
	if limits := p.Progress; limits.Deadline > 0 {
		v.Rollback = &RollbackView{Deadline: limits.Deadline.String(), MinReady: limits.MinReady.String()}
	}
	for _, old := range t.Old {
		v.Replaces = append(v.Replaces, old.ID)
	}
	mounts := p.Mounts()
	for i := range p.Containers {
		c := &p.Containers[i]
		view := ContainerView{Name: c.Name, Kind: string(c.Kind), CreatedAhead: i > 0 && p.createsAhead(&p.Containers[i-1], c)}
		config, err := shown(*c).Preview(mounts)
		switch {
		case err == nil:
			view.Config = cri.Value(config)
		// If the target is refused, the sandbox is absent, and the problems explain why.
		case t.Refused() == nil:
			return v, fmt.Errorf("pod %s: container %s: %w", p.ID, c.Name, err)
		}
		if spec := lifecycle.FindContainer(p.Pod, c.Name).Container; lifecycle.HasPostStart(spec) {
			view.PostStart = spec.Lifecycle.PostStart
		}
		v.Containers = append(v.Containers, view)
	}
	return v, nil
}
