package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/problem"
)

// ReadProblems looks at the host, before anything is done, for what would fail
// then: a hostPath or a volume's directory that is not what the pod takes it
// for, and a mount that is to share mounts with the host from a place that
// doesn't.
func ReadProblems(ctx context.Context, pod *corev1.Pod, p Plan) (problem.List, error) {
	var out problem.List
	for i, v := range p.Volumes {
		var check *CheckError
		err := lookAt(ctx, v)
		if ctx.Err() != nil && err != nil {
			return out, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		if errors.As(err, &check) {
			out = append(out, problem.Problem{Object: "Pod " + p.ID.String(), Field: field(i, v.Kind), Reason: "FailedMount", Message: check.Message})
		}
	}
	var mounts []mount
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
					if mounts, err = readMounts(); err != nil {
						return out, err
					}
				}
				path := p.Sources()[m.Name].HostPath
				real, err := await(ctx, path, func() (string, error) { return nearest(path), nil })
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

// lookAt checks a volume without making anything.
func lookAt(ctx context.Context, v Volume) error {
	switch m := v.Make.(type) {
	case *HostPath:
		return m.check(ctx, v.HostPath)
	case *Local:
		return m.check(ctx)
	}
	return nil
}

// notShared says why a path, whose real path is given too, can't have a
// propagation; empty if it can.
func notShared(mounts []mount, path, real string, want corev1.MountPropagationMode) string {
	var on *mount
	for i := range mounts { // of several at one place the last is on top
		m := &mounts[i]
		at := strings.TrimSuffix(m.Point, "/")
		if (real == at || strings.HasPrefix(real, at+"/")) && (on == nil || len(m.Point) >= len(on.Point)) {
			on = m
		}
	}
	switch {
	case on == nil || on.Shared:
		return ""
	case want == corev1.MountPropagationBidirectional:
		return fmt.Sprintf("path %q is mounted on %q but it is not a shared mount", path, on.Point)
	case !on.Slave:
		return fmt.Sprintf("path %q is mounted on %q but it is not a shared or slave mount", path, on.Point)
	}
	return ""
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
