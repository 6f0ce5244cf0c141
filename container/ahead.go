package container

import (
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreatesAfter reports whether podrun may create the container early: before the previous app container
// has started, or before the previous init container has completed. podrun and containerd read data when
// they create the container. The previous container and its start must not be able to change this data.
// containerd prepares mounts and processes only when it starts a container.
func (p Plan) CreatesAfter(previous Plan) bool {
	switch previous.Kind {
	case App:
		if p.Kind != App {
			return false
		}
	case Init:
		if p.Kind != Init && p.Kind != Sidecar {
			return false
		}
	default:
		return false
	}
	// podrun creates the next container only after a postStart hook has finished (k/k#81450).
	if l := previous.container.Lifecycle; l != nil && l.PostStart != nil {
		return false
	}
	return previous.confined() && p.confined() && p.fixed()
}

// confined reports whether the container can change only its own files, the pod's volumes and the pod's
// network. Neither its start nor its processes can then change data on the host that is read when
// another container is created. On a host with SELinux, the result is false, because the runtime labels
// the files of volumes when it creates a container.
func (p Plan) confined() bool {
	if p.in.Facts.SELinux || p.in.Pod.Spec.HostPID || len(p.container.VolumeDevices) > 0 || p.base == nil || len(p.base.CDIDevices) > 0 || p.base.Linux.SecurityContext.GetPrivileged() {
		return false
	}
	for _, m := range p.container.VolumeMounts {
		if !p.ownVolume(m.Name) {
			return false
		}
		if propagation, err := propagationOf(m); err != nil || propagation != runtimeapi.MountPropagation_PROPAGATION_PRIVATE {
			return false
		}
	}
	return true
}

// ownVolume reports whether the source of a volume is a directory that podrun creates for this pod. A
// container cannot replace such a directory.
func (p Plan) ownVolume(name string) bool {
	source, ok := p.in.Mounts[name]
	return ok && strings.HasPrefix(source.HostPath, string(p.in.Layout.Pod(p.in.ID.UID))+"/")
}

// fixed reports whether the container's request, and the files to which it refers, depend neither on the
// contents of volumes nor on the host's security profiles.
func (p Plan) fixed() bool {
	for _, m := range p.container.VolumeMounts {
		if m.SubPath != "" || m.SubPathExpr != "" {
			return false
		}
	}
	sc := p.base.Linux.SecurityContext
	profiles := []*runtimeapi.SecurityProfile{sc.GetSeccomp(), sc.GetApparmor()}
	return len(p.FileKeys()) == 0 && !slices.ContainsFunc(profiles, func(s *runtimeapi.SecurityProfile) bool {
		return s.GetProfileType() == runtimeapi.SecurityProfile_Localhost
	})
}
