package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/safepath"
)

// ReadProblems checks the host, before any change, for problems that would make
// Apply fail: a hostPath or volume directory of the wrong type, and mount
// propagation from a path that is not a shared mount. The problems have field
// paths.
func ReadProblems(ctx context.Context, pod *corev1.Pod, p Plan) (problem.List, error) {
	var out problem.List
	for i, v := range p.Volumes {
		var check *CheckError
		err := checkVolume(ctx, v)
		if ctx.Err() != nil && err != nil {
			return out, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		if errors.As(err, &check) {
			out = append(out, problem.Problem{Object: "Pod " + p.ID.String(), Field: field(i, v.Kind), Reason: "FailedMount", Message: check.Message})
		}
	}
	var mounts []*mountinfo.Info
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i, c := range list.containers {
			for j, m := range c.VolumeMounts {
				if m.MountPropagation == nil || *m.MountPropagation == corev1.MountPropagationNone {
					continue
				}
				if mounts == nil {
					var err error
					if mounts, err = safepath.Mounts(); err != nil {
						return out, err
					}
				}
				path := p.Sources()[m.Name].HostPath
				real, err := safepath.Await(ctx, path, func() (string, error) { return nearest(path), nil })
				if err != nil {
					return out, err
				}
				if message := notShared(mounts, path, real, *m.MountPropagation); message != "" {
					out = append(out, problem.Problem{Object: "Pod " + p.ID.String(),
						Field:  fmt.Sprintf("spec.%s[%d].volumeMounts[%d].mountPropagation", list.name, i, j),
						Reason: "FailedMount", Message: message, Hint: "share the host's mount: mount --make-rshared"})
				}
			}
		}
	}
	return out, nil
}

// checkVolume checks a volume without making anything.
func checkVolume(ctx context.Context, v Volume) error {
	switch v.Setup.Kind {
	case SetupHostPath:
		return v.Setup.HostPath.check(ctx, v.HostPath)
	case SetupLocal:
		return v.Setup.Local.check(ctx)
	}
	return nil
}

// notShared explains why a path, whose real path is also an argument, does not support a
// propagation; empty if it does.
func notShared(mounts []*mountinfo.Info, path, real string, want corev1.MountPropagationMode) string {
	var on *mountinfo.Info
	for _, m := range mounts { // of several at one mount point the last is on top
		at := strings.TrimSuffix(m.Mountpoint, "/")
		if (real == at || strings.HasPrefix(real, at+"/")) && (on == nil || len(m.Mountpoint) >= len(on.Mountpoint)) {
			on = m
		}
	}
	switch {
	case on == nil || hasTag(on, "shared:"):
		return ""
	case want == corev1.MountPropagationBidirectional:
		return fmt.Sprintf("path %q is mounted on %q but it is not a shared mount", path, on.Mountpoint)
	case !hasTag(on, "master:"):
		return fmt.Sprintf("path %q is mounted on %q but it is not a shared or slave mount", path, on.Mountpoint)
	}
	return ""
}

// hasTag reports whether a mount has an optional field such as shared:7, by which
// it passes mounts on, or master:7, by which it receives them.
func hasTag(m *mountinfo.Info, prefix string) bool {
	return slices.ContainsFunc(strings.Fields(m.Optional), func(tag string) bool { return strings.HasPrefix(tag, prefix) })
}

// nearest is the real path, or that of the nearest directory above that is there.
func nearest(path string) string {
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real
		}
		parent := filepath.Dir(path)
		if parent == path || !errors.Is(err, fs.ErrNotExist) {
			return path
		}
		path = parent
	}
}
