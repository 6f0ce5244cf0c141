package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"

	corev1 "k8s.io/api/core/v1"
)

// AllContainers is the key in Options.Images that means every container.
const AllContainers = "*"

// override applies the options Env and Images. It must run before defaulting, because the
// default of imagePullPolicy depends on the image's tag.
func (s podSpec) override() {
	for _, list := range [][]corev1.Container{s.spec.InitContainers, s.spec.Containers} {
		for i := range list {
			c := &list[i]
			for _, v := range s.l.opts.Env {
				c.Env = slices.DeleteFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == v.Name })
				c.Env = append(c.Env, v)
			}
			for _, key := range []string{AllContainers, c.Name} {
				if image := s.l.opts.Images[key]; image != "" {
					c.Image, s.l.imagesUsed[key] = image, true
				}
			}
		}
	}
}

// unusedImages returns problems for the names in the option Images that no container has.
func (l *loader) unusedImages() problem.List {
	var out problem.List
	known := "the containers are " + strings.Join(l.containerNames(), ", ") + "; '*=IMAGE' changes all"
	for _, name := range slices.Sorted(maps.Keys(l.opts.Images)) {
		if !l.imagesUsed[name] {
			out = append(out, problem.Problem{Kind: problem.Usage, Reason: "ContainerNotFound",
				Message: fmt.Sprintf("--set-image: no pod has a container %q", name), Hint: known})
		}
	}
	return out
}

// maxNames is the maximum number of container names in a hint.
const maxNames = 20

// containerNames returns the names of the containers and init containers of all pods, each once,
// in the order of the input.
func (l *loader) containerNames() []string {
	var out []string
	for _, p := range l.objects.Pods {
		for _, list := range [][]corev1.Container{p.Object.Spec.InitContainers, p.Object.Spec.Containers} {
			for _, c := range list {
				if slices.Contains(out, c.Name) {
					continue
				}
				if len(out) == maxNames {
					return append(out, "…")
				}
				out = append(out, c.Name)
			}
		}
	}
	return out
}
