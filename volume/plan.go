// Package volume plans, creates and removes the files of a pod on the host: its directory, its
// volumes, and the files that its containers mount. The layout is the kubelet's, so that tools
// for /var/lib/kubelet/pods also work with podrun's root directory.
//
// New is pure; the other functions read or change the host.
package volume

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// Input is the input of a plan.
type Input struct {
	Pod    *corev1.Pod // with defaults, and validated
	ID     identity.Pod
	Layout identity.Layout
	// MemoryLimit is the memory limit of the pod's cgroup in bytes; 0 means no limit. It limits the
	// size of the tmpfs of a memory-backed emptyDir.
	MemoryLimit int64
	// MemoryAllocatable is the node's allocatable memory in bytes. It limits the size of a
	// tmpfs if the pod has no limit. 0 means the kernel's default: half the RAM.
	MemoryAllocatable int64
	// Allocatable contains the default limits for resourceFieldRef in a downwardAPI.
	Allocatable corev1.ResourceList
	NodeName    string
	NodeLabels  map[string]string

	// The objects of the pod's namespace, by name. Claims are already bound (Bind).
	ConfigMaps        map[string]*corev1.ConfigMap
	Secrets           map[string]*corev1.Secret
	Claims            map[string]*corev1.PersistentVolumeClaim
	PersistentVolumes map[string]*corev1.PersistentVolume
	// ClaimDir is the parent of the directories of claims without a volume. If it is "", podrun
	// creates no such directories.
	ClaimDir string
	// Private are the paths that no volume may expose, whatever the paths of the volumes mean when podrun mounts
	// them. If Private is empty, podrun does not check this.
	Private []string

	// the files of each ConfigMap, which New converts once for all volumes
	read  map[*corev1.ConfigMap]map[string][]byte
	taken *int // number of files from ConfigMaps and Secrets so far
}

// Plan is the plan of a pod's directory and volumes. It marshals to stable JSON.
type Plan struct {
	ID      identity.Pod    `json:"id"`
	Layout  identity.Layout `json:"layout"`
	Dir     string          `json:"dir"`     // the pod's directory
	Volumes []Volume        `json:"volumes"` // in the order of the spec
}

// Volume is one volume of the pod.
type Volume struct {
	Name string `json:"name"`
	// name of the field in the API's VolumeSource, such as emptyDir
	Kind string `json:"kind"`
	// plugin directory, such as kubernetes.io~empty-dir; empty if the volume is not below the pod's
	// directory
	Plugin   string `json:"plugin,omitempty"`
	HostPath string `json:"hostPath"` // the path that containers mount
	Setup    Setup  `json:"make"`     // how Apply sets up the volume
	// true if containers may not write to the volume, regardless of their mounts
	ReadOnly bool   `json:"readOnly,omitempty"`
	Image    string `json:"image,omitempty"`  // reference of an image volume, which has no HostPath
	Device   string `json:"device,omitempty"` // device of a volume of mode Block, for volumeDevices
	// ExtraGroup is the supplemental group that the volume's PersistentVolume requests.
	ExtraGroup *int64 `json:"extraGroup,omitempty"`
	// FSGroup is the group to which podrun gives the volume's files; nil keeps their group. It is
	// always nil for kinds whose ownership the kubelet does not change, such as hostPath.
	FSGroup       *int64                        `json:"fsGroup,omitempty"`
	FSGroupPolicy corev1.PodFSGroupChangePolicy `json:"fsGroupChangePolicy,omitempty"`
}

// Source contains the properties of a volume that the plan of a container requires.
type Source struct {
	Kind     string
	HostPath string
	ReadOnly bool
	Image    string // reference of an image volume
	Device   string // device of a volume of mode Block
	Labeled  bool   // true if the runtime relabels the volume for SELinux
}

// Sources returns the source of each volume by the volume's name.
func (p Plan) Sources() map[string]Source {
	out := make(map[string]Source, len(p.Volumes))
	for _, v := range p.Volumes {
		out[v.Name] = Source{Kind: v.Kind, HostPath: v.HostPath, ReadOnly: v.ReadOnly, Image: v.Image, Device: v.Device,
			Labeled: v.Plugin != "" && v.Plugin != nfsPlugin && v.Plugin != hostPathPlugin}
	}
	return out
}

// ExtraGroups returns the supplemental groups that the pod's persistent volumes request.
func (p Plan) ExtraGroups() []int64 {
	var out []int64
	for _, v := range p.Volumes {
		if v.ExtraGroup != nil {
			out = append(out, *v.ExtraGroup)
		}
	}
	return out
}

// planner returns the Volume for a volume of one kind. It sets Plugin, HostPath and Setup and, if
// the kind supports ownership, the ownership. The field paths of its problems are relative to the
// field of the kind.
type planner func(in Input, v *corev1.Volume) (Volume, problem.List)

// planners maps each supported kind to its planner. To add a kind, add a file with its planner. If
// podrun sets up the kind in a new way, also add a SetupKind in a separate file.
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

// New returns the plan of the pod's volumes. For each volume that podrun cannot set up, it
// returns a problem.
func New(in Input) (Plan, problem.List) {
	plan := Plan{ID: in.ID, Layout: in.Layout, Dir: string(in.Layout.Pod(in.ID.UID)), Volumes: []Volume{}}
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

// Slow reports whether setting up the volumes may take a long time, because a volume is on a
// network, or because podrun must change the group of all files in a volume.
func (p Plan) Slow() bool {
	return slices.ContainsFunc(p.Volumes, func(v Volume) bool {
		return v.Setup.Kind == SetupNFS || v.Setup.Kind == SetupLocal && v.FSGroup != nil || v.sealed()
	})
}

// sealed reports whether the volume contains credentials of the host. A TPM may take seconds to decrypt one.
func (v Volume) sealed() bool {
	return v.Setup.Kind == SetupFiles && slices.ContainsFunc(v.Setup.Files.Files, func(f File) bool { return f.Credential != "" })
}

// DependsOnHost reports whether the plan has volumes that depend on the host. Such a volume requires a path of a
// certain type, the directory of a PersistentVolume, or a server. If it cannot be set up, podrun does not create a
// sandbox for the pod, like the kubelet. podrun creates the other volumes itself; these fail only if the host has a
// problem.
func (p Plan) DependsOnHost() bool {
	return slices.ContainsFunc(p.Volumes, func(v Volume) bool {
		switch v.Setup.Kind {
		case SetupFiles:
			return v.sealed() // a credential may be missing
		case SetupHostPath:
			return v.Setup.HostPath.Type != "" || v.Setup.HostPath.Source != ""
		case SetupLocal, SetupNFS:
			return true
		}
		return false
	})
}

// kindOf returns the name of the source field that is set. If none is set, it returns emptyDir,
// as the API's defaulting does.
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
