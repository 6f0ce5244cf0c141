package volume

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// nested is a mount inside a read-only mount of the same container. The runtime can create its mount point
// only if the outer volume is writable.
type nested struct {
	field string // of the inner mount
	inner corev1.VolumeMount
	outer corev1.VolumeMount
	below string // path of the mount point in the outer volume
}

// nestedReadOnly returns the mounts inside read-only mounts of volumes that no container of the pod may write:
// otherwise, a container may create the mount point. It omits mounts below a subPathExpr.
func nestedReadOnly(pod *corev1.Pod) (out []nested) {
	written := map[string]bool{}
	lists := []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}}
	for _, list := range lists {
		for _, c := range list.containers {
			for _, m := range c.VolumeMounts {
				written[m.Name] = written[m.Name] || !m.ReadOnly
			}
		}
	}
	for _, list := range lists {
		for i, c := range list.containers {
			mounts := map[string]corev1.VolumeMount{}
			for _, m := range c.VolumeMounts {
				mounts[path.Clean("/"+m.MountPath)] = m
			}
			for j, inner := range c.VolumeMounts {
				outer, below, ok := outerMount(mounts, inner.MountPath)
				if ok && outer.ReadOnly && outer.SubPathExpr == "" && !written[outer.Name] {
					out = append(out, nested{fmt.Sprintf("spec.%s[%d].volumeMounts[%d]", list.name, i, j), inner, outer, path.Join(outer.SubPath, below)})
				}
			}
		}
	}
	return out
}

// outerMount returns the innermost mount that contains a mount point, and the path of the mount point below it.
// The argument mounts contains the mounts by their clean paths.
func outerMount(mounts map[string]corev1.VolumeMount, at string) (outer corev1.VolumeMount, below string, ok bool) {
	at = path.Clean("/" + at)
	for dir := path.Dir(at); ; dir = path.Dir(dir) {
		if outer, ok = mounts[dir]; ok || dir == "/" {
			return outer, strings.TrimPrefix(strings.TrimPrefix(at, dir), "/"), ok
		}
	}
}

// MountPoints returns the paths of the host at which Check expects mount points: those inside read-only
// hostPath volumes.
func MountPoints(pod *corev1.Pod) (out []string) {
	for _, n := range nestedReadOnly(pod) {
		for _, v := range pod.Spec.Volumes {
			if v.Name == n.outer.Name && v.HostPath != nil {
				out = append(out, filepath.Join(v.HostPath.Path, n.below))
			}
		}
	}
	return out
}

// missingMountPoints returns the problems of mount points that read-only volumes lack. Otherwise, the runtime
// would report them when the container starts. podrun knows the content of hostPath volumes and of
// emptyDir volumes that no container may write. It creates the mount points in volumes with files of the
// API itself.
func missingMountPoints(pod *corev1.Pod, p Plan, paths map[string]Path) (out problem.List) {
	for _, n := range nestedReadOnly(pod) {
		for _, v := range p.Volumes {
			if v.Name != n.outer.Name {
				continue
			}
			bad := problem.Problem{Object: "Pod " + p.ID.String(), Field: n.field + ".mountPath", Reason: "FailedMount",
				Message: fmt.Sprintf("the mount point %s does not exist in the volume %q, which is mounted read-only at %s", n.inner.MountPath, v.Name, n.outer.MountPath)}
			switch {
			case v.Setup.Kind == SetupHostPath:
				at := filepath.Join(v.Setup.HostPath.path(v), n.below)
				if found, known := paths[at]; !known || !found.Missing || found.Symlink {
					continue
				}
				bad.Hint = "create " + at + " on the host, or mount the volume without readOnly"
			case v.Kind == "emptyDir":
				bad.Kind, bad.Hint = problem.Manifest, "mount the emptyDir without readOnly in one of the containers, which creates the mount point"
			default:
				continue
			}
			out = append(out, bad)
		}
	}
	return out
}
