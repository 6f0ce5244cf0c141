// Package volume plans, creates and removes the files of a pod on the host: its
// directory, its volumes, and the files that its containers mount. The layout is the
// kubelet's, so that tools for /var/lib/kubelet/pods also work below podrun's root
// directory.
//
// New is pure. Files named apply* change the host, remove* undo these changes, read* only
// read.
package volume

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// Input is what a plan is made from.
type Input struct {
	Pod    *corev1.Pod // defaulted and validated
	ID     identity.Pod
	Layout identity.Layout
	// MemoryLimit is the memory limit of the pod's cgroup in bytes, 0 if it has
	// none. It caps the tmpfs of a memory-backed emptyDir.
	MemoryLimit int64
	// MemoryAllocatable is what the node has for pods, in bytes; it caps a tmpfs
	// where the pod has no limit. 0 leaves the cap to the kernel: half the RAM.
	MemoryAllocatable int64
	// Allocatable is what limits default to in a downwardAPI's resourceFieldRef.
	Allocatable corev1.ResourceList
	NodeName    string
	NodeLabels  map[string]string

	// The objects of the pod's namespace, by name. Claims are bound (Bind).
	ConfigMaps        map[string]*corev1.ConfigMap
	Secrets           map[string]*corev1.Secret
	Claims            map[string]*corev1.PersistentVolumeClaim
	PersistentVolumes map[string]*corev1.PersistentVolume
	// ClaimDir is where claims without a volume have their directories; empty for nowhere.
	ClaimDir string

	read  map[*corev1.ConfigMap]map[string][]byte // the files of ConfigMaps, made once for all volumes
	taken *int                                    // files of ConfigMaps and Secrets so far
}

// Plan is what podrun creates on the host for one pod. It marshals to stable
// JSON.
type Plan struct {
	ID      identity.Pod    `json:"id"`
	Layout  identity.Layout `json:"layout"`
	Dir     string          `json:"dir"`     // the pod's directory
	Volumes []Volume        `json:"volumes"` // in the order of the spec
}

// Volume is one volume of the pod.
type Volume struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`               // the field of the API's VolumeSource: emptyDir
	Plugin   string `json:"plugin,omitempty"`   // kubernetes.io~empty-dir; empty if the volume is not below the pod's directory
	HostPath string `json:"hostPath"`           // what containers mount
	Setup    Setup  `json:"make"`               // how Apply makes it
	ReadOnly bool   `json:"readOnly,omitempty"` // containers may not write, whatever their mounts say
	Image    string `json:"image,omitempty"`    // of an image volume, which has no HostPath
	Device   string `json:"device,omitempty"`   // of a volume of mode Block: what volumeDevices give to containers
	// ExtraGroup is a group that the volume's PersistentVolume asks for.
	ExtraGroup *int64 `json:"extraGroup,omitempty"`
	// FSGroup is the group that owns the volume's files; nil leaves them as they
	// are. Kinds that the kubelet doesn't manage, such as hostPath, never have it.
	FSGroup       *int64                        `json:"fsGroup,omitempty"`
	FSGroupPolicy corev1.PodFSGroupChangePolicy `json:"fsGroupChangePolicy,omitempty"`
}

// Source is what the planner of a container needs to know of a volume.
type Source struct {
	Kind     string
	HostPath string
	ReadOnly bool
	Image    string // of an image volume
	Device   string // of a volume of mode Block
	Labeled  bool   // SELinux labels it for the pod
}

// Sources gives each volume's source by the volume's name.
func (p Plan) Sources() map[string]Source {
	out := make(map[string]Source, len(p.Volumes))
	for _, v := range p.Volumes {
		out[v.Name] = Source{Kind: v.Kind, HostPath: v.HostPath, ReadOnly: v.ReadOnly, Image: v.Image, Device: v.Device,
			Labeled: v.Plugin != "" && v.Plugin != nfsPlugin}
	}
	return out
}

// ExtraGroups are the groups that the pod's persistent volumes bring along.
func (p Plan) ExtraGroups() []int64 {
	var out []int64
	for _, v := range p.Volumes {
		if v.ExtraGroup != nil {
			out = append(out, *v.ExtraGroup)
		}
	}
	return out
}

// planner plans one volume of its kind. It fills Plugin, HostPath, Setup and,
// where the kind has it, the ownership. The fields of its problems are below
// that of the kind.
type planner func(in Input, v *corev1.Volume) (Volume, problem.List)

// planners has one entry a supported kind; a new kind is a file with its
// planner and, if it is made in a new way, a kind of Setup with a file
// apply_<kind>.go.
var planners = map[string]planner{
	"configMap":             planConfigMap,
	"downwardAPI":           planDownward,
	"emptyDir":              planEmptyDir,
	"ephemeral":             planEphemeral,
	"hostPath":              planHostPath,
	"image":                 planImage,
	"nfs":                   planNFS,
	"persistentVolumeClaim": planClaim,
	"projected":             planProjected,
	"secret":                planSecret,
}

// New plans the pod's volumes. The problems list every volume that cannot be set
// up.
func New(in Input) (Plan, problem.List) {
	plan := Plan{ID: in.ID, Layout: in.Layout, Dir: in.Layout.Pod(in.ID.UID), Volumes: []Volume{}}
	var problems problem.List
	in.read, in.taken = map[*corev1.ConfigMap]map[string][]byte{}, new(int)
	for i := range in.Pod.Spec.Volumes {
		spec := &in.Pod.Spec.Volumes[i]
		kind := kindOf(spec)
		plan1, ok := planners[kind]
		if !ok {
			problems = append(problems, unsupported(in.ID, i, kind))
			continue
		}
		v, found := plan1(in, spec)
		for _, p := range found {
			p.Object, p.Field = "Pod "+in.ID.String(), strings.TrimSuffix(join(field(i, kind), p.Field), ".")
			problems = append(problems, p)
		}
		if len(found) > 0 {
			continue
		}
		v.Name, v.Kind = spec.Name, kind
		plan.Volumes = append(plan.Volumes, v)
	}
	return plan, problems
}

// Slow reports whether making the volumes may take long: one is on a network, or
// the owner of all of its files is changed.
func (p Plan) Slow() bool {
	return slices.ContainsFunc(p.Volumes, func(v Volume) bool {
		return v.Setup.Kind == SetupNFS || v.Setup.Kind == SetupLocal && v.FSGroup != nil
	})
}

// OfHost reports whether the host may lack what a volume needs: a path of a type, a
// directory of a PersistentVolume, a server. The pod then gets no sandbox, as with the
// kubelet; volumes that podrun makes itself fail only if the host does.
func (p Plan) OfHost() bool {
	return slices.ContainsFunc(p.Volumes, func(v Volume) bool {
		switch v.Setup.Kind {
		case SetupHostPath:
			return v.Setup.HostPath.Type != ""
		case SetupLocal, SetupNFS:
			return true
		}
		return false
	})
}

// kindOf names the field of the source that is set; emptyDir if none is, as
// the API's defaulting has it.
func kindOf(v *corev1.Volume) string {
	source := reflect.ValueOf(v.VolumeSource)
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "emptyDir"
}
