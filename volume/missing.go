package volume

import (
	"context"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/safepath"
)

// Missing reports whether a volume of the plan is not set up, so that Apply must be called before a
// container is created. For a hostPath without a type it never reports that, because the runtime
// creates the directory, as under a kubelet.
func Missing(ctx context.Context, p Plan) (bool, error) {
	for _, v := range p.Volumes {
		missing, err := v.missing(ctx)
		if missing || err != nil {
			return missing, err
		}
	}
	return false, nil
}

func (v Volume) missing(ctx context.Context) (bool, error) {
	switch s := v.Setup; s.Kind {
	case SetupEmptyDir:
		if s.EmptyDir.Medium == corev1.StorageMediumDefault {
			return !isReady(s.EmptyDir) || !hostfile.IsDir(v.HostPath), nil
		}
	case SetupHostPath:
		if s.HostPath.Type == corev1.HostPathUnset {
			return false, nil
		}
		found, err := stat(ctx, v.HostPath)
		return found.Missing, err
	case SetupByRuntime:
		return false, nil
	case SetupFiles:
		if _, err := os.Lstat(filepath.Join(v.HostPath, dataName)); err != nil && len(s.Files.Files) > 0 {
			return true, nil
		}
	}
	mounted, err := safepath.IsMountPoint(ctx, v.HostPath)
	return !mounted, err
}
