package pod

import (
	"slices"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
)

// Replan returns a new plan of a pod, computed from its checkpoint.
func Replan(n *node.Node, c *manifest.Checkpoint, facts host.Facts, settings nodeconfig.Settings) (*prepare.Plan, problem.List) {
	objects := c.Objects()
	handler, found := prepare.RuntimeHandler(c.Pod, objects)
	allocatable, bad := admission.Allocatable(facts, settings)
	plan, problems := prepare.NewPlan(prepare.PlanInput{
		Pod: c.Pod, UID: string(c.Pod.UID), Definition: c.Definition, Objects: objects, Images: c.Images, Facts: facts, Settings: settings,
		Handler: handler, Invocation: n.Invocation, Allocatable: allocatable,
	})
	plan.WithDevices(plan.AssignedDevices())
	plan.Checkpoint.InMemory = c.InMemory
	plan.Checkpoint.SecretsLost = c.SecretsLost
	return plan, slices.Concat(found, bad, problems)
}
