package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podrun/podrun/internal/problem"
)

// imageVolumes maps a runtime to its first version that can mount images (KEP-4639). No runtime
// advertises the feature. containerd before 2.1 fails to create the container with `mkdir "":
// no such file or directory`.
var imageVolumes = map[string]*version.Version{
	"containerd": version.MustParseGeneric("2.1.0"),
	"cri-o":      version.MustParseGeneric("1.31.0"),
}

// checkImageVolumes refuses image volumes if the runtime is known to be too old for them. If the
// runtime or its version is unknown, podrun tries to mount the image.
func checkImageVolumes(q question) problem.List {
	if !q.runtimeOlder(imageVolumes) {
		return nil
	}
	var out problem.List
	for i, v := range q.pod.Spec.Volumes {
		if v.Image != nil {
			out = append(out, problem.Problem{
				Field: fmt.Sprintf("spec.volumes[%d].image", i), Reason: "ImageVolumeNotSupported",
				Message: fmt.Sprintf("%s does not support image volumes", runtimeName(q)),
				Hint:    "requires containerd 2.1 or CRI-O 1.31",
			})
		}
	}
	return out
}
