// Package imagepull pulls a pod's images. It plans which images the pod requires. It pulls them
// concurrently as soon as the pod is admitted, and lets each container wait only for its own
// image. The order of the calls, the texts of the events and the policies are the kubelet's
// (pkg/kubelet/images). There are two differences: pulls are concurrent, and permanent errors fail
// immediately. Package imagepull/auth finds credentials; package imagepull/archive reads archives.
package imagepull

import (
	"fmt"
	"slices"
	"strings"

	// The digest of a reference may use one of these algorithms.
	_ "crypto/sha256"
	_ "crypto/sha512"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// Plan contains the images of one pod, with one Image per reference.
type Plan struct {
	ID identity.Pod `json:"id"`
	// the pod's annotations, which podrun sends to the runtime with each image
	Annotations map[string]string `json:"annotations,omitempty"`
	// the handler of the pod's RuntimeClass
	RuntimeHandler string  `json:"runtimeHandler,omitempty"`
	Images         []Image `json:"images"` // the images of init containers come first
	// Sandbox is the config that podrun sends to the runtime with each pull. The caller sets it;
	// it may be nil.
	Sandbox *runtimeapi.PodSandboxConfig `json:"-"`
	// PullSecrets contains the pod's imagePullSecrets that exist. The caller sets it. A
	// printed plan must not contain them.
	PullSecrets []*corev1.Secret `json:"-"`
}

// Image is one image that the pod requires.
type Image struct {
	Name string `json:"name"` // the name as written in the first container
	Ref  string `json:"ref"`  // the reference for the runtime: with a tag or a digest
	// Policy is the strictest policy of the containers. If one container has Always, podrun pulls
	// the image for all of them. Never applies only if all containers have it.
	Policy     corev1.PullPolicy `json:"policy"`
	Containers []Container       `json:"containers"`
	// ID is the ID of the image to use if the runtime has it, whatever Ref refers to now; "" for none.
	ID string `json:"id,omitempty"`
}

// Container is a container that uses an image of the plan.
type Container struct {
	Name      string            `json:"name"`
	Image     string            `json:"image"`     // the image's name as written in the container
	Policy    corev1.PullPolicy `json:"policy"`    // the pull policy of this container
	FieldPath string            `json:"fieldPath"` // such as spec.containers{app}; events refer to it
}

// New returns the plan of the pod's images. For each name that cannot be parsed, it returns a
// problem (reason InvalidImageName). The plan contains the other images. The pod must have its
// defaults, so that each container has its pull policy. runtimeHandler is the handler of the pod's
// RuntimeClass; "" means the runtime's default.
func New(pod *corev1.Pod, id identity.Pod, runtimeHandler string) (Plan, problem.List) {
	plan := Plan{ID: id, Annotations: pod.Annotations, RuntimeHandler: runtimeHandler, Images: []Image{}}
	var problems problem.List
	byRef := map[string]int{}
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}, {"ephemeralContainers", ephemeral(pod)}} {
		for i := range list.containers {
			c := &list.containers[i]
			ref, err := normalize(c.Image)
			if err != nil {
				problems = append(problems, invalidName(id, fmt.Sprintf("spec.%s[%d].image", list.field, i), c.Image, err))
				continue
			}
			at, seen := byRef[ref]
			if !seen {
				at = len(plan.Images)
				byRef[ref] = at
				plan.Images = append(plan.Images, Image{Name: c.Image, Ref: ref, Policy: c.ImagePullPolicy})
			}
			image := &plan.Images[at]
			image.Policy = stricter(image.Policy, c.ImagePullPolicy)
			image.Containers = append(image.Containers, Container{Name: c.Name, Image: c.Image, Policy: c.ImagePullPolicy,
				FieldPath: fmt.Sprintf("spec.%s{%s}", list.field, c.Name)})
		}
	}
	return plan, append(problems, plan.addVolumes(pod)...)
}

// WithIDs returns the plan with the IDs of images; the keys are their names as written.
func (p Plan) WithIDs(ids map[string]string) Plan {
	if len(ids) == 0 {
		return p
	}
	p.Images = slices.Clone(p.Images)
	for i := range p.Images {
		p.Images[i].ID = ids[p.Images[i].Name]
	}
	return p
}

// ephemeral returns the pod's ephemeral containers converted to the type Container.
func ephemeral(pod *corev1.Pod) []corev1.Container {
	var out []corev1.Container
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return out
}

// VolumeImage returns a name for the image of an image volume. Pulls.Wait accepts it in place of
// a container's name. It is unambiguous, because container names contain no slash.
func VolumeImage(volume string) string { return "volume/" + volume }

// addVolumes adds the images of image volumes. Each image volume has its own entry, because the
// pull policy of a container with the same image does not apply to the volume. The events about an
// image volume refer to the pod.
func (p *Plan) addVolumes(pod *corev1.Pod) problem.List {
	var problems problem.List
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Image == nil {
			continue
		}
		name, policy := v.Image.Reference, v.Image.PullPolicy
		ref, err := normalize(name)
		if err != nil {
			problems = append(problems, invalidName(p.ID, fmt.Sprintf("spec.volumes[%d].image.reference", i), name, err))
			continue
		}
		p.Images = append(p.Images, Image{Name: name, Ref: ref, Policy: policy,
			Containers: []Container{{Name: VolumeImage(v.Name), Image: name, Policy: policy}}})
	}
	return problems
}

// Only returns the plan for a restart of one container. The result contains only the container's
// image. If p has no image for the container, the result contains none.
func (p Plan) Only(container string) Plan {
	out := p
	out.Images = []Image{}
	for _, image := range p.Images {
		for _, c := range image.Containers {
			if c.Name == container {
				one := image
				one.Name, one.Policy, one.Containers = c.Image, c.Policy, []Container{c}
				out.Images = append(out.Images, one)
			}
		}
	}
	return out
}

// normalize adds :latest to a name that has neither a tag nor a digest. It does not expand a short
// name, because the runtime decides to which registry the name refers.
func normalize(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	if reference.IsNameOnly(named) && !strings.HasSuffix(image, ":latest") {
		return image + ":latest", nil
	}
	return image, nil
}

func invalidName(id identity.Pod, field, image string, err error) problem.Problem {
	return problem.Problem{
		Object:  "Pod " + id.String(),
		Field:   field,
		Reason:  ReasonInvalidName,
		Message: invalidNameMessage(image, err),
		Hint:    "use [registry[:port]/]name[:tag][@digest], in lower case except for the tag",
	}
}

// invalidNameMessage returns the kubelet's InspectFailed message for an invalid name.
func invalidNameMessage(image string, err error) string {
	return fmt.Sprintf("Failed to apply default image tag %q: %v", image, err)
}

// strictness contains the rank of each policy. Always is the strictest.
var strictness = map[corev1.PullPolicy]int{corev1.PullNever: 0, corev1.PullIfNotPresent: 1, corev1.PullAlways: 2}

func stricter(a, b corev1.PullPolicy) corev1.PullPolicy {
	if strictness[b] > strictness[a] {
		return b
	}
	return a
}
