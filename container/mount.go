package container

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/podrun/podrun/internal/problem"
)

// etcHosts is the path of the pod's hosts file in every container, unless a volume is
// mounted there.
const etcHosts = "/etc/hosts"

// MountSource is the source of a mount, from a volume.
type MountSource struct {
	HostPath string
	// read-only regardless of the mount's definition: configMap, secret, downwardAPI…
	ReadOnly       bool
	SELinuxRelabel bool // true if podrun manages the files, and the file system supports labels
	// source of an image volume, in place of HostPath
	Image *runtimeapi.ImageSpec
	// source of a block volume: the host's device. Only volumeDevices use it.
	Device string
}

// mounts returns the mounts of the volumes in the order of volumeMounts, followed by the mounts of
// the hosts file and the termination log.
func (p Plan) mounts(late Late, env *environ) ([]*runtimeapi.Mount, problem.List) {
	var out []*runtimeapi.Mount
	subpaths, problems := p.subpaths(env)
	ownHosts := false
	for i, m := range p.container.VolumeMounts {
		ownHosts = ownHosts || m.MountPath == etcHosts
		mount, err := p.mount(i, m, late, subpaths[i])
		if err != nil {
			problems = append(problems, p.problem(fmt.Sprintf("volumeMounts[%d]", i), reasonConfig, "%s", err))
			continue
		}
		out = append(out, mount)
	}
	if late.EtcHostsPath != "" && !ownHosts {
		out = append(out, p.file(late.EtcHostsPath, etcHosts))
	}
	if at := p.container.TerminationMessagePath; at != "" && late.TerminationLogPath != "" {
		out = append(out, p.file(late.TerminationLogPath, absolute(at)))
	}
	if userNS := p.in.Namespaces.GetUsernsOptions(); userNS != nil {
		for _, m := range out {
			m.UidMappings, m.GidMappings = userNS.Uids, userNS.Gids
		}
	}
	return out, problems
}

// file returns the mount of a file that podrun creates.
func (p Plan) file(from, at string) *runtimeapi.Mount {
	return &runtimeapi.Mount{HostPath: from, ContainerPath: at, SelinuxRelabel: p.in.Facts.SELinux}
}

func (p Plan) mount(index int, m corev1.VolumeMount, late Late, subpath string) (*runtimeapi.Mount, error) {
	source, ok := late.Mounts[m.Name]
	if !ok {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, p.Name)
	}
	if source.Device != "" {
		return nil, fmt.Errorf("volume %q has volumeMode Block, but is specified in volumeMounts", m.Name)
	}
	propagation, err := propagationOf(m)
	if err != nil {
		return nil, err
	}
	recursive, err := p.recursiveReadOnly(m)
	if err != nil {
		return nil, err
	}
	mount := &runtimeapi.Mount{
		ContainerPath:     absolute(m.MountPath),
		HostPath:          source.HostPath,
		Readonly:          m.ReadOnly || source.ReadOnly,
		RecursiveReadOnly: recursive,
		SelinuxRelabel:    source.SELinuxRelabel && p.in.Facts.SELinux,
		Propagation:       propagation,
	}
	switch {
	case source.Image != nil:
		mount.HostPath, mount.Image, mount.ImageSubPath = "", source.Image, subpath
	case subpath != "":
		if mount.HostPath, ok = late.SubpathPaths[index]; !ok {
			return nil, fmt.Errorf("subPath %q of volume %q was not prepared", subpath, m.Name)
		}
	}
	return mount, nil
}

// absolute adds / to the beginning of a relative path.
func absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return "/" + p
}

func propagationOf(m corev1.VolumeMount) (runtimeapi.MountPropagation, error) {
	if m.MountPropagation == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *m.MountPropagation {
	case corev1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	}
	return 0, fmt.Errorf("invalid mountPropagation %q", *m.MountPropagation)
}

// recursiveReadOnly resolves IfPossible. The result depends on the features of the runtime's
// handler (KEP-3857). podrun must not request the feature if the runtime does not report it:
// containerd 1.6 accepts the request, and mounts non-recursively.
func (p Plan) recursiveReadOnly(m corev1.VolumeMount) (bool, error) {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	if !m.ReadOnly {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", m.Name)
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", m.Name, *m.MountPropagation)
	}
	able := p.in.Facts.Runtime.Handlers[p.in.Handler].RecursiveReadOnlyMounts
	if !able && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyIfPossible {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
	}
	return able, nil
}

// Subpaths returns the expanded subPath or subPathExpr of each mount that has one. The keys are
// indexes in volumeMounts. Each value is a path inside the volume. For image volumes, podrun
// need not prepare the subpaths, because the runtime resolves them.
func (p Plan) Subpaths(late Late) (map[int]string, error) {
	env, problems := p.environment(late)
	paths, more := p.subpaths(&env)
	return paths, problem.Refuse(problem.Manifest, append(problems, more...))
}

func (p Plan) subpaths(env *environ) (map[int]string, problem.List) {
	out := map[int]string{}
	var problems problem.List
	for i, m := range p.container.VolumeMounts {
		if !env.spend(env.lengthOf(m.SubPathExpr)) {
			return out, append(problems, p.tooLong(fmt.Sprintf("volumeMounts[%d].subPathExpr", i)))
		}
		sub, err := subpath(m, env)
		if err != nil {
			problems = append(problems, p.reference(fmt.Sprintf("volumeMounts[%d]", i), err))
			continue
		}
		if sub != "" {
			out[i] = sub
		}
	}
	return out, problems
}

// subpath expands the expression. It returns an error if a variable is missing or empty, because
// podrun would otherwise mount a parent of the intended directory.
func subpath(m corev1.VolumeMount, env *environ) (string, error) {
	sub := m.SubPath
	if m.SubPathExpr != "" {
		var missing []string
		sub = expansion.Expand(m.SubPathExpr, func(name string) string {
			if env.values[name] == "" {
				missing = append(missing, name)
			}
			return env.values[name]
		})
		if len(missing) > 0 {
			slices.Sort(missing)
			return "", fmt.Errorf("subPathExpr %q: missing value for %s", m.SubPathExpr, strings.Join(slices.Compact(missing), ", "))
		}
	}
	if path.IsAbs(sub) {
		return "", fmt.Errorf("subPath %q must not be an absolute path", sub)
	}
	if slices.Contains(strings.Split(sub, "/"), "..") {
		return "", fmt.Errorf("subPath %q must not contain '..'", sub)
	}
	return sub, nil
}
