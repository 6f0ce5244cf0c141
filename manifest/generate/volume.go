package generate

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// parseVolume converts [SOURCE:]PATH[:OPTIONS] of docker run -v. If SOURCE contains a slash, it
// is a path of the host, relative to dir. Otherwise it is the name of a PersistentVolumeClaim,
// because docker's named volumes outlive containers. Without SOURCE, the volume is an emptyDir.
func parseVolume(text, dir string) (corev1.Volume, corev1.VolumeMount, error) {
	var volume corev1.Volume
	var mount corev1.VolumeMount
	parts := strings.Split(text, ":")
	source, options := "", ""
	switch len(parts) {
	case 1:
		mount.MountPath = parts[0]
	case 2:
		source, mount.MountPath = parts[0], parts[1]
	case 3:
		source, mount.MountPath, options = parts[0], parts[1], parts[2]
	}
	if !strings.HasPrefix(mount.MountPath, "/") || len(parts) > 1 && source == "" {
		return volume, mount, fmt.Errorf("--volume=%s is not of the form [SOURCE:]PATH[:ro] with an absolute PATH (-v is --volume here; --verbose has no short form)", text)
	}
	switch {
	case source == "":
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case strings.HasPrefix(source, "~"):
		return volume, mount, fmt.Errorf("--volume=%s: the shell replaces ~ only at the beginning of a word: use $HOME", text)
	case strings.Contains(source, "/") || source == "." || source == "..":
		if !filepath.IsAbs(source) {
			source = filepath.Join(dir, source)
		}
		volume.HostPath = &corev1.HostPathVolumeSource{Path: filepath.Clean(source)}
	default:
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: source}
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "ro":
			mount.ReadOnly = true
		case "rslave":
			mount.MountPropagation = new(corev1.MountPropagationHostToContainer)
		case "rshared":
			mount.MountPropagation = new(corev1.MountPropagationBidirectional)
		case "", "rw", "rprivate", "cached", "delegated", "consistent":
		default:
			return volume, mount, fmt.Errorf("--volume=%s: the option %q is not supported: use ro, rw, rslave or rshared", text, option)
		}
	}
	return volume, mount, nil
}
