package prepare

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/sandbox"
	"github.com/podrun/podrun/volume"
)

// Plan contains everything that podrun does to run one pod. podrun computes it before the first side
// effect. container.Plan.Config adds values that are known only later: the pod's addresses and its
// images.
type Plan struct {
	ID         identity.Pod
	Pod        *corev1.Pod // with default values, UID and nodeName
	Layout     identity.Layout
	Name       dns.Name
	Cgroup     cgroup.Plan
	Volumes    volume.Plan
	Sandbox    sandbox.Plan // for a sandbox with attempt 0
	Images     imagepull.Plan
	Containers []container.Plan // init containers first, in the order of the spec
	NodeIPs    []string
	Runtime    string // the runtime's name, which is the prefix of container IDs
	EtcHosts   string // the host's /etc/hosts
	Warnings   []event.Event
	// StartOrder is the order in which app containers start (nodeconfig.StartOrders).
	StartOrder string
	// Progress are the limits of the update to this definition.
	Progress lifecycle.ProgressLimits
	Devices  map[string][]string // the CDI devices, by container name
	// Checkpoint contains the objects from which the pod was created, for later podrun processes.
	Checkpoint manifest.Checkpoint

	Facts host.Facts `json:"-"` // the facts on which the plan is based
}

// PlanInput is the input of NewPlan.
type PlanInput struct {
	Pod *corev1.Pod // with defaults, and validated
	UID string      // the UID of the new pod
	// Definition is the object that defines the pod; nil if podrun does not know it.
	Definition *manifest.Definition
	Objects    *manifest.Objects
	Images     map[string]string // see manifest.Checkpoint.Images
	Facts      host.Facts
	Settings   nodeconfig.Settings
	Handler    string // the runtime handler of the pod's RuntimeClass
	// Allocatable is the capacity of this host for pods (admission.Allocatable).
	Allocatable corev1.ResourceList
	Invocation  string // the random ID of this podrun process
}

// NewPlan returns the plan of one pod, and all problems. It is pure. The caller must not execute a plan
// with a problem that is not a warning.
func NewPlan(in PlanInput) (*Plan, problem.List) {
	pod := in.Pod.DeepCopy()
	pod.Spec.NodeName = in.Facts.NodeName
	pod.UID = types.UID(in.UID)
	p := &Plan{
		ID:       identity.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Pod:      pod,
		Layout:   in.Settings.Layout(),
		NodeIPs:  in.Facts.NodeIPs,
		Runtime:  in.Facts.Runtime.Name,
		Facts:    in.Facts,
		EtcHosts: in.Facts.EtcHosts,
	}
	var problems problem.List
	p.Cgroup = cgroup.New(cgroup.Input{Pod: pod, Facts: in.Facts, Settings: in.Settings})
	problems = append(problems, p.planVolumes(in)...)
	problems = append(problems, p.planSandbox(in)...)
	images, found := imagepull.New(pod, p.ID, in.Handler)
	for i := range found {
		found[i].Kind = problem.Image
	}
	problems = append(problems, found...)
	images.Sandbox = p.Sandbox.Config
	p.Images = images.WithIDs(in.Images)
	problems = append(problems, p.planContainers(in)...)
	p.Checkpoint = manifest.Referred(pod, in.Objects)
	p.Checkpoint.Definition, p.Checkpoint.Images = in.Definition, in.Images
	problems = append(problems, p.planStartOrder(in.Settings)...)
	problems = append(problems, p.checkCredentials(in.Settings.PodSecurity)...)
	problems = append(problems, p.planProgress(in.Definition, in.Settings)...)
	problems = append(problems, p.checkAddress()...)
	return p, append(problems, p.planPullSecrets()...)
}

// Images returns the plan of a pod's images, without the sandbox, and all problems.
func Images(pod *corev1.Pod, objects *manifest.Objects, id identity.Pod) (imagepull.Plan, problem.List) {
	handler, problems := RuntimeHandler(pod, objects)
	p := &Plan{ID: id, Pod: pod, Checkpoint: manifest.Referred(pod, objects)}
	images, found := imagepull.New(pod, id, handler)
	p.Images = images
	problems = append(append(problems, found...), p.planPullSecrets()...)
	return p.Images, problems
}

// planPullSecrets adds the pod's imagePullSecrets to the plans for its images. As in the kubelet, a
// missing Secret is a warning, not an error: the image may be public, or the host may have credentials.
// A Secret of another type is a warning, too.
func (p *Plan) planPullSecrets() problem.List {
	var missing []string
	var problems problem.List
	for i, ref := range p.Pod.Spec.ImagePullSecrets {
		at := slices.IndexFunc(p.Checkpoint.Secrets, func(s *corev1.Secret) bool { return s.Name == ref.Name })
		switch {
		case ref.Name == "":
		case at < 0:
			missing = append(missing, ref.Name)
		case !auth.IsPullSecret(p.Checkpoint.Secrets[at]):
			problems = append(problems, problem.Problem{Warning: true, Reason: "NoPullSecret",
				Field:   fmt.Sprintf("spec.imagePullSecrets[%d].name", i),
				Message: fmt.Sprintf("Secret %q of type %q does not contain registry credentials and is ignored", ref.Name, p.Checkpoint.Secrets[at].Type),
				Hint:    "create a Secret of type kubernetes.io/dockerconfigjson with 'kubectl create secret docker-registry'"})
		default:
			p.Images.PullSecrets = append(p.Images.PullSecrets, p.Checkpoint.Secrets[at])
		}
	}
	if len(missing) > 0 {
		p.Warnings = append(p.Warnings, event.Event{Type: event.Warning, Reason: event.FailedToRetrieveImagePullSecret,
			Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", "))})
	}
	return problems
}

func (p *Plan) planVolumes(in PlanInput) problem.List {
	namespace := p.ID.Namespace
	vin := volume.Input{
		Pod: p.Pod, ID: p.ID, Layout: p.Layout, MemoryAllocatable: in.Allocatable.Memory().Value(), Allocatable: in.Allocatable,
		NodeName: in.Facts.NodeName, NodeLabels: in.Facts.NodeLabels,
		ConfigMaps: ofNamespace(in.Objects.ConfigMaps, namespace), Secrets: ofNamespace(in.Objects.Secrets, namespace),
		Claims: ofNamespace(in.Objects.Claims, namespace), PersistentVolumes: in.Objects.Volumes, ClaimDir: in.Settings.ClaimDir,
		Private: admission.PrivatePaths(in.Facts, in.Settings),
	}
	if limit, ok := resource.PodLimits(p.Pod)[corev1.ResourceMemory]; ok {
		vin.MemoryLimit = limit.Value()
	}
	plan, problems := volume.New(vin)
	p.Volumes = plan
	return append(problems, forUser(plan, in.Facts.User)...)
}

// forUser refuses volumes that an ordinary user cannot mount (docs/rootless.md).
func forUser(plan volume.Plan, user *host.User) problem.List {
	if user == nil {
		return nil
	}
	var out problem.List
	for i, v := range plan.Volumes {
		field := fmt.Sprintf("spec.volumes[%d]", i)
		switch {
		case v.Setup.Kind == volume.SetupNFS:
			out = append(out, problem.Problem{Field: field, Reason: "FailedMount", Message: "user " + user.Name + " cannot mount NFS exports",
				Hint: "let root mount the export on the host and use hostPath, or use sudo"})
		case v.Device != "":
			out = append(out, problem.Problem{Field: field, Reason: "FailedMount",
				Message: "user " + user.Name + " cannot give block devices to containers",
				Hint:    "use a volume of mode Filesystem, or use sudo"})
		}
	}
	return out
}

// dropMissingDNS drops the warning about the missing cluster DNS if the pod has dnsPolicy
// ClusterFirst only by default. On a host without a cluster, such a pod does not need cluster DNS.
func (p *Plan) dropMissingDNS() {
	p.Warnings = slices.DeleteFunc(p.Warnings, func(e event.Event) bool { return e.Reason == event.MissingClusterDNS })
}

func (p *Plan) planSandbox(in PlanInput) problem.List {
	conf, warnings := dns.New(p.Pod, in.Facts.PodResolvConf(p.Pod.Spec.HostNetwork), in.Settings.ClusterDNS, in.Settings.ClusterDomain)
	for _, w := range warnings {
		p.Warnings = append(p.Warnings, event.Event{Type: event.Warning, Reason: w.Reason, Message: w.Message})
	}
	userNS, problems := UserNamespace(p.Pod, in.UID, in.Facts.UserNS, in.Settings.MaxPods)
	name, err := dns.Hostname(p.Pod, in.Settings.ClusterDomain, in.Settings.Gate("HostnameOverride", true))
	if err != nil {
		problems = append(problems, problem.Problem{Field: "spec.setHostnameAsFQDN", Reason: "FailedCreatePodSandBox", Message: err.Error()})
	}
	p.Name = name
	plan, found := sandbox.New(sandbox.Input{
		Pod: p.Pod, ID: p.ID, Invocation: in.Invocation,
		DNS:          &runtimeapi.DNSConfig{Servers: conf.Servers, Searches: conf.Searches, Options: conf.Options},
		Hostname:     name.Kernel,
		CgroupParent: p.Cgroup.Parent(),
		Handler:      in.Handler,
		UserNS:       userNS,
		Layout:       p.Layout, Settings: in.Settings, Cgroup: in.Facts.Cgroup,
	})
	p.Sandbox = plan
	return append(problems, found...)
}

func (p *Plan) planContainers(in PlanInput) problem.List {
	var problems problem.List
	// A pod may have a thousand containers, so NewPlan computes the values that they share only
	// once. One of these values is the QoS class, which Kubernetes' functions read from the status.
	classed := *p.Pod
	classed.Status.QOSClass = resource.QOSClass(p.Pod)
	configMaps, secrets := ofNamespace(in.Objects.ConfigMaps, p.ID.Namespace), ofNamespace(in.Objects.Secrets, p.ID.Namespace)
	mounts, groups := p.Mounts(), p.Volumes.ExtraGroups()
	for _, c := range lifecycle.SpecContainers(p.Pod) {
		plan, found := container.New(container.Input{
			Pod: &classed, Name: c.Container.Name, ID: p.ID,
			Layout: p.Layout, Settings: in.Settings, Facts: in.Facts, Handler: in.Handler, Allocatable: in.Allocatable,
			Namespaces: p.Sandbox.Namespaces(),
			ConfigMaps: configMaps, Secrets: secrets,
			Mounts:      mounts,
			ExtraGroups: groups,
			SwapLimits:  in.Facts.Cgroup.SwapLimits, ThermalPaths: in.Facts.ThermalPaths,
		})
		problems = append(problems, found...)
		p.Containers = append(p.Containers, plan)
		if p.text() > maxText {
			// All refuses a pod with so much text.
			break
		}
	}
	return problems
}

// ofNamespace returns the objects of one namespace. The keys of objects are namespace/name; the keys
// of the result are names.
func ofNamespace[T any](objects map[string]T, namespace string) map[string]T {
	out := map[string]T{}
	for key, o := range objects {
		if name, ok := strings.CutPrefix(key, namespace+"/"); ok {
			out[name] = o
		}
	}
	return out
}

// Container returns the plan of the container with the given name, or nil if there is none.
func (p *Plan) Container(name string) *container.Plan {
	i := slices.IndexFunc(p.Containers, func(c container.Plan) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Containers[i]
}

// Mounts returns the mount sources of the pod's volumes on this host, by volume name.
func (p *Plan) Mounts() map[string]container.MountSource {
	out := map[string]container.MountSource{}
	for name, source := range p.Volumes.Sources() {
		m := container.MountSource{HostPath: source.HostPath, ReadOnly: source.ReadOnly, SELinuxRelabel: source.Labeled, Device: source.Device}
		if source.Image != "" {
			m.Image = &runtimeapi.ImageSpec{Image: "(imageID)", UserSpecifiedImage: source.Image, Annotations: p.Pod.Annotations}
		}
		out[name] = m
	}
	return out
}

// Hashes returns the hashes of the containers' specs, by container name.
func (p *Plan) Hashes() map[string]string {
	out := map[string]string{}
	for _, c := range lifecycle.SpecContainers(p.Pod) {
		out[c.Container.Name] = container.Hash(c.Container)
	}
	return out
}

// Runs reports whether the plan's pod has a ready sandbox, according to the facts.
func (p *Plan) Runs() bool {
	return slices.ContainsFunc(p.Facts.Pods, func(h host.Pod) bool { return h.UID == p.ID.UID && h.Ready })
}
