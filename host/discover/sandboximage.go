package discover

import (
	"context"
	"slices"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
)

// SandboxImage reports whether the runtime's pause image is present. containerd 2 does not report
// the image's name, but by default it pins no other image. If that image has several names, the configured one is
// unknown.
func SandboxImage(ctx context.Context, client *cri.Client, runtime host.Runtime) host.SandboxImage {
	out := host.SandboxImage{Name: runtime.SandboxImg}
	switch {
	case out.Name != "":
		if found, err := client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: out.Name}); err == nil {
			here := found != nil
			out.Present = &here
		}
	case runtime.Name == "containerd" && !runtime.Containerd1():
		list, err := client.Images.List(ctx)
		if err != nil {
			return out
		}
		pinned := slices.DeleteFunc(list, func(i *runtimeapi.Image) bool { return !i.Pinned })
		here := len(pinned) > 0
		out.Present = &here
		if len(pinned) == 1 && len(pinned[0].RepoTags) == 1 {
			out.Name = pinned[0].RepoTags[0]
		}
	}
	return out
}

// SandboxNames returns the full names by which the runtime refers to its sandbox image, and to the
// other images that it pins, if it reports them. The error is that of the runtime.
func SandboxNames(ctx context.Context, client *cri.Client, runtime host.Runtime) ([]string, error) {
	var names []string
	if named, err := reference.ParseDockerRef(runtime.SandboxImg); err == nil {
		names = append(names, named.String())
	}
	list, err := client.Images.List(ctx)
	for _, i := range list {
		if i.Pinned {
			names = slices.Concat(names, i.RepoTags, i.RepoDigests)
		}
	}
	return names, err
}
