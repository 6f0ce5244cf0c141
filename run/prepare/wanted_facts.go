package prepare

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/volume"
)

// Wanted lists the facts of this host that podrun needs to plan a set of objects.
type Wanted struct {
	Pods map[string]bool // names of existing pods, as namespace/name
	// facts that only some pods require, and that take long to read
	Facts discover.Options
}

// NewWanted determines the facts that podrun needs to plan the objects. If allowKubelet is true,
// podrun does not search for a running kubelet.
func NewWanted(objects *manifest.Objects, s nodeconfig.Settings, allowKubelet bool) Wanted {
	w := Wanted{Pods: map[string]bool{}, Facts: discover.Options{Kubelet: !allowKubelet}}
	o := &w.Facts
	for _, p := range objects.Pods {
		w.Pods[p.Object.Namespace+"/"+p.Object.Name] = true
		o.Mounts = o.Mounts || propagates(p.Object)
	}
	o.HostPaths = pathsOf(bindClaims(objects, s.ClaimDir))
	if s.ClaimDir != "" && len(o.HostPaths) > 0 {
		o.HostPaths = append(o.HostPaths, s.ClaimDir)
	}
	if o.Mounts {
		o.HostPaths = append(o.HostPaths, s.RootDir)
	}
	for _, p := range objects.Pods {
		o.HostPaths = append(o.HostPaths, volume.MountPoints(p.Object)...)
		o.SeccompProfiles = append(o.SeccompProfiles, admission.SeccompProfiles(p.Object)...)
		plan, _ := imagepull.New(p.Object, identity.Pod{}, "")
		for _, image := range plan.Images {
			if image.Policy != corev1.PullAlways && !slices.Contains(o.Images, image.Ref) {
				o.Images = append(o.Images, image.Ref)
			}
		}
		o.Ports = append(o.Ports, host.HostPorts(p.Object)...)
	}
	return w
}

// propagates reports whether a container of the pod uses mount propagation.
func propagates(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone
		})
	})
}

// pathsOf returns the host paths in the objects' volumes.
func pathsOf(objects *manifest.Objects) []string {
	var out []string
	for _, p := range objects.Pods {
		for _, v := range p.Object.Spec.Volumes {
			if v.HostPath != nil {
				out = append(out, v.HostPath.Path)
			}
		}
	}
	for _, pv := range objects.Volumes {
		if path := pathOf(pv); path != "" {
			out = append(out, path)
		}
	}
	return out
}

// pathProblems returns the problems of the host paths in the pod's volumes. If the argument planning
// contains errors, pathProblems returns nil, because the plan then does not contain all volumes.
func (p *Plan) pathProblems(paths map[string]volume.Path, planning problem.List) problem.List {
	if len(planning.Errors()) > 0 {
		return nil
	}
	return volume.Check(p.Pod, p.Volumes, paths, p.Layout.RootDir)
}

// volumePaths converts the facts about host paths to the type of package volume.
func volumePaths(facts map[string]host.Path) map[string]volume.Path {
	out := make(map[string]volume.Path, len(facts))
	for name, found := range facts {
		out[name] = volume.Path(found)
	}
	return out
}
