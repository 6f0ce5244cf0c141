package volume

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/problem"
)

// HostPath checks a path of the host, and makes it where its type says so. What
// it made stays when the pod goes: the content is the host's.
type HostPath struct {
	Type corev1.HostPathType `json:"type"` // "" checks and makes nothing
}

func planHostPath(_ Input, spec *corev1.Volume) (Volume, problem.List) {
	check := &HostPath{}
	if spec.HostPath.Type != nil {
		check.Type = *spec.HostPath.Type
	}
	return Volume{HostPath: spec.HostPath.Path, Make: check}, nil
}
