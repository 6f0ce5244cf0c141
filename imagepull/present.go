package imagepull

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// localRegistry is the registry that podman adds to the name of an image that has no registry.
const localRegistry = "localhost/"

// present returns the name under which this host has an image that podrun could not pull. It returns
// "" if the host does not have the image, or if the pod may not use it. If the pull policy is
// Always, the result is the image's own name. Otherwise, it is localhost/NAME, the name under which
// an archive of `podman save` contains the image. present ignores errors of the runtime, because its
// result is only used for a hint.
func (p *Puller) present(ctx context.Context, plan Plan, image Image) string {
	names := make([]string, 0, 2)
	if image.Policy == corev1.PullAlways {
		names = append(names, image.Ref)
	}
	if hasNoRegistry(image.Ref) {
		names = append(names, localRegistry+image.Ref)
	}
	for _, name := range names {
		found, err := p.client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: name, RuntimeHandler: plan.RuntimeHandler})
		candidate := image
		candidate.Ref = name
		if err == nil && found != nil && !p.mustPull(plan, candidate, found) {
			return name
		}
	}
	return ""
}

// hasNoRegistry reports whether the name of an image begins with a path, and not with a
// registry.
func hasNoRegistry(ref string) bool {
	first, _, ok := strings.Cut(ref, "/")
	return !ok || first != "localhost" && !strings.ContainsAny(first, ".:")
}

// presentHint returns a text that explains how to use the image that is present, or "" if no image
// is present.
func (e *PullError) presentHint() string {
	switch {
	case e.Present == "":
		return ""
	case strings.HasPrefix(e.Present, localRegistry) && !strings.HasPrefix(e.Image, localRegistry):
		return "this host has the image " + e.Present + " (the name that 'podman save' uses): set image: " + e.Present +
			" and imagePullPolicy: IfNotPresent in the manifest"
	}
	return "this host has the image " + e.Present + ": set imagePullPolicy: IfNotPresent to use it without a registry"
}
