package volume

import (
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// Path describes what exists at a path of the host, as host.Path does.
type Path struct {
	Mode       fs.FileMode
	Symlink    bool
	Missing    bool
	Error      string
	MountPoint string
	Shared     bool
	Slave      bool
}

// Check returns the problems of a pod's volumes that would make Apply fail. Such problems are a
// hostPath or a volume's directory of the wrong type, text that must not become an argument of
// mount(8), mount propagation from a path that is not on a shared mount, and mount points that a read-only volume
// lacks. Check considers only the given paths. The argument root is the path of
// podrun's root directory; the mount that contains it also contains the volumes below it. The
// problems have field paths.
func Check(pod *corev1.Pod, p Plan, paths map[string]Path, root string) problem.List {
	var out problem.List
	for i, v := range p.Volumes {
		if message := v.problem(paths); message != "" {
			found := problem.Problem{Object: "Pod " + p.ID.String(), Field: field(i, v.Kind), Reason: "FailedMount", Message: message, Hint: v.hint(paths)}
			if v.Setup.Kind == SetupNFS {
				found.Kind = problem.Manifest
			}
			out = append(out, found)
		}
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i, c := range list.containers {
			for j, m := range c.VolumeMounts {
				if m.MountPropagation == nil || *m.MountPropagation == corev1.MountPropagationNone {
					continue
				}
				path := p.Sources()[m.Name].HostPath
				found, known := paths[path]
				if !known {
					found = paths[root]
				}
				if message := found.notShared(path, *m.MountPropagation); message != "" {
					out = append(out, problem.Problem{Object: "Pod " + p.ID.String(),
						Field:  fmt.Sprintf("spec.%s[%d].volumeMounts[%d].mountPropagation", list.name, i, j),
						Reason: "FailedMount", Message: message, Hint: "make the host's mount shared: mount --make-rshared"})
				}
			}
		}
	}
	return append(out, missingMountPoints(pod, p, paths)...)
}

// problem explains why a volume cannot be set up. It returns "" if the volume can be set up.
func (v Volume) problem(paths map[string]Path) string {
	switch v.Setup.Kind {
	case SetupHostPath:
		if found, known := paths[v.Setup.HostPath.path(v)]; known {
			return v.Setup.HostPath.problem(v.Setup.HostPath.path(v), found)
		}
	case SetupLocal:
		return v.Setup.Local.problem(paths)
	case SetupNFS:
		return v.Setup.NFS.problem()
	}
	return ""
}

// hint returns the fix if the problem is a missing directory, and "" otherwise.
func (v Volume) hint(paths map[string]Path) string {
	path := ""
	switch {
	case v.Setup.Kind == SetupLocal && v.Setup.Local.optionProblem() != "":
	case v.Setup.Kind == SetupLocal && !v.Setup.Local.Create:
		path = v.Setup.Local.Path
	case v.Setup.Kind == SetupHostPath && v.Setup.HostPath.Type == corev1.HostPathDirectory:
		path = v.Setup.HostPath.path(v)
	}
	if path == "" || !paths[path].Missing {
		return ""
	}
	return "create the directory: 'mkdir -p " + path + "'"
}

// problem explains why podrun cannot use a path that does not have the required type. It returns ""
// if the path has that type, or if podrun can create the path.
func (h *HostPath) problem(path string, found Path) string {
	if h.Type == corev1.HostPathUnset {
		return ""
	}
	check, known := hostPathChecks[h.Type]
	switch {
	case !known:
		return fmt.Sprintf("%s is an invalid volume type", h.Type)
	case found.Missing && check.make != nil:
		return ""
	case found.Missing || found.Error != "" || found.Mode != check.mode:
		return fmt.Sprintf("hostPath type check failed: %s is not %s", path, check.words)
	}
	return ""
}

// problem explains why podrun cannot use the directory of a volume or a claim, or its mount options.
// It returns "" if podrun can use them.
func (l *Local) problem(paths map[string]Path) string {
	if message := l.optionProblem(); message != "" {
		return message
	}
	if l.Create {
		return l.claimProblem(paths)
	}
	found, known := paths[l.Path]
	switch {
	case !known:
		return ""
	case found.Missing || found.Error != "":
		return fmt.Sprintf("path %q does not exist", l.Path)
	case !found.Mode.IsDir():
		return fmt.Sprintf("path %q is not a directory", l.Path)
	}
	return ""
}

// claimProblem implements problem for the directory of a claim. podrun creates such a directory if
// it does not exist. The directory must not be a symlink.
func (l *Local) claimProblem(paths map[string]Path) string {
	for _, path := range []string{filepath.Dir(l.Path), l.Path} {
		found, known := paths[path]
		switch {
		case !known || found.Missing && !found.Symlink:
		case found.Error != "":
			return found.Error
		case !found.Mode.IsDir() || found.Symlink && path == l.Path:
			return fmt.Sprintf("path %q is not a directory", path)
		}
	}
	return ""
}

// notShared explains why the mount of a path does not support a propagation mode. It returns "" if
// the mount supports the mode.
func (p Path) notShared(path string, want corev1.MountPropagationMode) string {
	switch {
	case p.MountPoint == "" || p.Shared:
		return ""
	case want == corev1.MountPropagationBidirectional:
		return fmt.Sprintf("path %q is mounted on %q but it is not a shared mount", path, p.MountPoint)
	case !p.Slave:
		return fmt.Sprintf("path %q is mounted on %q but it is not a shared or slave mount", path, p.MountPoint)
	}
	return ""
}
