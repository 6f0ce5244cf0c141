// Package container plans a pod's containers: it computes the CRI config of each container in two
// pure steps. New computes all values that are known in advance. Plan.Config adds the values that
// become known later, such as the pod's addresses. Apply then creates the container.
package container

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// Kind is a container's role in its pod.
type Kind string

// The kinds of containers.
const (
	Init    Kind = "init"    // an init container that must exit successfully before the next container starts
	Sidecar Kind = "sidecar" // an init container with restartPolicy Always
	App     Kind = "app"
	// Ephemeral is a container for debugging a running pod (KEP-277).
	Ephemeral Kind = "ephemeral"
)

// Input is the input of a container's plan. ConfigMaps and Secrets are the objects of the pod's
// namespace, by name.
type Input struct {
	Pod  *corev1.Pod // with defaults
	Name string      // name of the container, which may be of any kind
	ID   identity.Pod

	Layout   identity.Layout
	Settings nodeconfig.Settings
	Facts    host.Facts
	Handler  string // the runtime handler of the sandbox

	// Allocatable contains the node's allocatable resources. resourceFieldRef uses them as default
	// limits. nil means Facts.Capacity.
	Allocatable corev1.ResourceList
	// Namespaces are the sandbox's namespaces (sandbox.Plan.Namespaces).
	Namespaces *runtimeapi.NamespaceOption
	// ExtraGroups are the GIDs that the pod's persistent volumes request.
	ExtraGroups []int64
	// SwapLimits is true if the kernel limits swap: memory.memsw.limit_in_bytes on cgroup
	// v1, memory.swap.max on v2.
	SwapLimits bool
	// ThermalPaths lists the /sys/devices/system/cpu/cpu<n>/thermal_throttle directories of the
	// host. podrun hides them from containers.
	ThermalPaths []string

	ConfigMaps map[string]*corev1.ConfigMap
	Secrets    map[string]*corev1.Secret
	// Mounts contains the mounts of the pod's volumes that are known, by name.
	Mounts map[string]MountSource
}

// Plan is the plan of one container.
type Plan struct {
	Name      string
	Kind      Kind
	Image     string // the image name in the pod's spec
	Policy    corev1.PullPolicy
	FieldPath string // spec.containers{app}, as in events
	// the container whose processes an ephemeral container can see; "" if there is none
	Target string
	// total size of the variables, command, arguments and groups, in bytes
	Text int

	in        Input
	container *corev1.Container
	field     string // spec.containers[0], as in problems
	// everything in the config that is known in advance
	base *runtimeapi.ContainerConfig
}

// New returns the plan of the container with the name in.Name, and all problems that are known before
// the sandbox exists. The warnings among them become events of the pod.
func New(in Input) (Plan, problem.List) {
	pod := *in.Pod
	pod.Namespace, pod.Name, pod.UID = in.ID.Namespace, in.ID.Name, types.UID(in.ID.UID)
	in.Pod = &pod
	if in.Allocatable == nil {
		in.Allocatable = in.Facts.Capacity
	}
	// The plan does not keep the facts about other pods. It exists as long as podrun supervises the
	// container, so the memory for n plans would otherwise grow with n².
	f := &in.Facts
	f.Pods, f.Images, f.UserNS, f.Listeners, f.Unreadable = nil, nil, nil, nil, nil
	p, ok := find(in)
	if !ok {
		return Plan{}, problem.List{{
			Object: "Pod " + in.ID.String(), Field: "spec.containers",
			Message: fmt.Sprintf("there is no container %q", in.Name),
		}}
	}
	security, problems := p.securityContext()
	c := p.container
	p.base = &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name},
		WorkingDir:  c.WorkingDir,
		Labels:      labels(in.ID, c.Name),
		Annotations: annotations(&pod, c),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       p.Resources(),
			SecurityContext: security,
		},
	}
	if in.Settings.Gate("ContainerStopSignals", false) {
		p.base.StopSignal = stopSignal(c)
	}
	config, late := p.config(p.placeholders(in.Mounts))
	p.Text = textOf(config)
	return p, append(problems, late...)
}

func textOf(config *runtimeapi.ContainerConfig) int {
	// size of a group, or the overhead of each variable, in a printed plan
	const each = 64
	n := each * len(config.Linux.SecurityContext.SupplementalGroups)
	for _, e := range config.Envs {
		n += len(e.Key) + len(e.Value) + each
	}
	for _, word := range slices.Concat(config.Command, config.Args) {
		n += len(word)
	}
	return n
}

// Preview returns the config with placeholders, such as (podIP), for values that are not known yet.
// The argument mounts contains the known mounts, by volume name.
func (p Plan) Preview(mounts map[string]MountSource) (*runtimeapi.ContainerConfig, error) {
	config, problems := p.config(p.placeholders(mounts))
	return config, problem.Refuse(problem.Manifest, problems)
}

// find finds the container in the pod, and returns a plan with the fields that depend only on the
// pod.
func find(in Input) (Plan, bool) {
	for i := range in.Pod.Spec.InitContainers {
		if c := &in.Pod.Spec.InitContainers[i]; c.Name == in.Name {
			kind := Init
			if podutil.IsRestartableInitContainer(c) {
				kind = Sidecar
			}
			return plan(in, c, kind, "spec.initContainers", i), true
		}
	}
	for i := range in.Pod.Spec.Containers {
		if c := &in.Pod.Spec.Containers[i]; c.Name == in.Name {
			return plan(in, c, App, "spec.containers", i), true
		}
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		if c := &in.Pod.Spec.EphemeralContainers[i]; c.Name == in.Name {
			out := plan(in, (*corev1.Container)(&c.EphemeralContainerCommon), Ephemeral, "spec.ephemeralContainers", i)
			out.Target = c.TargetContainerName
			return out, true
		}
	}
	return Plan{}, false
}

func plan(in Input, c *corev1.Container, kind Kind, list string, index int) Plan {
	return Plan{
		Name: c.Name, Kind: kind, Image: ImageName(c), Policy: c.ImagePullPolicy,
		FieldPath: fmt.Sprintf("%s{%s}", list, c.Name),
		in:        in, container: c, field: fmt.Sprintf("%s[%d]", list, index),
	}
}

// ImageName returns the image name in the pod's spec, which is also the value of
// user_specified_image. Package imagepull adds the tag.
func ImageName(c *corev1.Container) string { return c.Image }

// problem returns a problem with a field. The field's path is relative to the container.
func (p Plan) problem(field, reason, format string, args ...any) problem.Problem {
	if field != "" {
		field = "." + field
	}
	return problem.Problem{
		Object: "Pod " + p.in.ID.String(), Field: p.field + field,
		Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

// reference returns the problem for a reference to a missing object. This is a problem of the
// manifest.
func (p Plan) reference(field string, err error) problem.Problem {
	bad := p.problem(field, reasonConfig, "%s", err)
	bad.Kind = problem.Manifest
	if _, ok := err.(sealedError); ok {
		bad.Hint = "mount the Secret as a volume, and read the file"
	}
	if m, ok := err.(missingObject); ok {
		bad.Hint = fmt.Sprintf("add the %s to the input, or name its file with --%s", m.kind, strings.ToLower(m.kind))
	}
	return bad
}
