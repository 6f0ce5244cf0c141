package cgroup

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// The kubelet's names of groups (pkg/kubelet/cm).
const (
	kubepods   = "kubepods"
	burstable  = "burstable"
	bestEffort = "besteffort"
)

// rootName splits the setting cgroupRoot into its parts. It returns nil for "/" and "".
func rootName(root string) []string {
	clean := strings.Trim(path.Clean("/"+root), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// podName returns the name of a pod's group, relative to the cgroup root.
func podName(class corev1.PodQOSClass, uid string) []string {
	pod := "pod" + uid
	switch class {
	case corev1.PodQOSGuaranteed:
		return []string{kubepods, pod}
	case corev1.PodQOSBurstable:
		return []string{kubepods, burstable, pod}
	}
	return []string{kubepods, bestEffort, pod}
}

// isPod reports whether a group belongs to a pod.
func isPod(g Group) bool { return strings.HasPrefix(g.Name[len(g.Name)-1], "pod") }

// groupPath returns the path of a group in the driver's notation, relative to the mount
// point.
func groupPath(driver string, name []string) string {
	if driver == host.DriverSystemd {
		return slicePath(name)
	}
	return "/" + path.Join(name...)
}

// slicePath returns the path of a group as nested slices (systemd.slice(5)). A dash separates
// levels, so a dash inside a name becomes an underscore, as in the kubelet. {kubepods, burstable,
// pod1-2} becomes /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice.
func slicePath(name []string) string {
	out, prefix := "/", ""
	for _, part := range name {
		prefix += strings.ReplaceAll(part, "-", "_")
		out = path.Join(out, prefix+".slice")
		prefix += "-"
	}
	return out
}

// unit splits the path of a slice into the unit and its parent unit. The parent of a top-level
// slice is systemd's root slice.
func unit(slicePath string) (name, parent string) {
	dir, base := path.Split(slicePath)
	if dir = path.Clean(dir); dir == "/" {
		return base, "-.slice"
	}
	return base, path.Base(dir)
}
