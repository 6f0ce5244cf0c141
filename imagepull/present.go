package imagepull

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// localRegistry is the registry in the names that podman gives to images without one.
const localRegistry = "localhost/"

// present returns the name under which this host has an image that could not be pulled; "" if it has
// none that the pod may use. It is the image's own name if the pull policy is Always. Otherwise, an
// archive of `podman save` contained the image as localhost/NAME. Errors of the runtime are ignored,
// because the result is used only for a hint.
func (p *Puller) present(ctx context.Context, plan Plan, image Image) string {
	names := make([]string, 0, 2)
	if image.Policy == corev1.PullAlways {
		names = append(names, image.Ref)
	}
	if hasNoRegistry(image.Ref) {
		names = append(names, localRegistry+image.Ref)
	}
	for _, name := range names {
		found, err := p.client.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name, RuntimeHandler: plan.RuntimeHandler})
		candidate := image
		candidate.Ref = name
		if err == nil && found != nil && !p.mustPull(plan, candidate, found) {
			return name
		}
	}
	return ""
}

// hasNoRegistry reports whether the name of an image begins with a path, not with a registry.
func hasNoRegistry(ref string) bool {
	first, _, ok := strings.Cut(ref, "/")
	return !ok || first != "localhost" && !strings.ContainsAny(first, ".:")
}

// presentHint returns how to use the image that is present; "" if there is none.
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
