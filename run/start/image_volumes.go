package start

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/volume"
)

// addVolumeValues adds the values from volumes that are not known before podrun creates the container:
// the images that the container mounts, and the variables that init containers wrote to files.
func (c configs) addVolumeValues(ctx context.Context, plan *container.Plan, spec *corev1.Container, images map[string]imagepull.Result, late *container.Late) error {
	for name, got := range images {
		source := late.Mounts[name]
		source.Image = proto.CloneOf(source.Image)
		source.Image.Image = got.ImageID
		late.Mounts[name] = source
	}
	for _, key := range plan.FileKeys() {
		value, err := volume.ReadEnvValue(ctx, c.pod.Plan.Mounts()[key.Volume].HostPath, key.Path, key.Key)
		if err != nil {
			return fmt.Errorf("volume %s: %w", key.Volume, err)
		}
		if late.FileValues == nil {
			late.FileValues = map[container.FileKey]string{}
		}
		late.FileValues[key] = value
	}
	return nil
}

// subpathError describes a mount that cannot be prepared. It omits the path to which a subPathExpr
// expands, because the path may contain a Secret.
func subpathError(spec *corev1.Container, index int, err error) error {
	m := spec.VolumeMounts[index]
	if m.SubPathExpr == "" {
		return fmt.Errorf("volumeMounts[%d]: %w", index, err)
	}
	cause := errors.New("the path cannot be created")
	for _, known := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, safepath.ErrOutside} {
		if errors.Is(err, known) {
			cause = known
		}
	}
	return fmt.Errorf("volumeMounts[%d]: subPathExpr %q of volume %s: %w", index, m.SubPathExpr, m.Name, cause)
}

// imageVolumes returns the names of the image volumes that a container mounts, without duplicates.
func (st *Starter) imageVolumes(c *corev1.Container) []string {
	var names []string
	for _, m := range c.VolumeMounts {
		if st.pod.Plan.Mounts()[m.Name].Image != nil && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// volumeImages returns the images that a container mounts as volumes, by volume name. It may wait for
// them.
func (st *Starter) volumeImages(ctx context.Context, name string) (map[string]imagepull.Result, error) {
	out := map[string]imagepull.Result{}
	for _, volume := range st.imageVolumes(lifecycle.FindContainer(st.pod.Spec(), name).Container) {
		got, err := st.Images.Waiter.take(ctx, imagepull.VolumeImage(volume))
		if err != nil {
			return nil, err
		}
		out[volume] = got
	}
	return out, nil
}
