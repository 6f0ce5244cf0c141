package volume

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// HostPath checks a path of the host, and creates the path if its type requires that. When the pod
// is removed, the path remains.
type HostPath struct {
	Type corev1.HostPathType `json:"type"` // if it is "", podrun neither checks nor creates the path
	// Source is the path that podrun binds at the volume's directory; "" if the runtime mounts the path itself. podrun
	// binds it if it must not expose the paths in Private: the runtime would resolve the path again at each start of a
	// container.
	Source  string   `json:"source,omitempty"`
	Private []string `json:"private,omitempty"` // Input.Private
}

// path returns the path of the host, for a volume with this setup.
func (h *HostPath) path(v Volume) string { return cmp.Or(h.Source, v.HostPath) }

func planHostPath(_ Input, spec *corev1.Volume) (Volume, problem.List) {
	return hostPathVolume(spec.HostPath), nil
}

// hostPathVolume returns the Volume for a hostPath of a pod or of a PersistentVolume.
func hostPathVolume(s *corev1.HostPathVolumeSource) Volume {
	kind := corev1.HostPathUnset
	if s.Type != nil {
		kind = *s.Type
	}
	return Volume{HostPath: s.Path, Setup: checkHostPath(kind)}
}

// checkHostPath returns the setup of a host path that must have the given type.
func checkHostPath(kind corev1.HostPathType) Setup {
	return Setup{Kind: SetupHostPath, HostPath: &HostPath{Type: kind}}
}
