package manifest

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/podrun/podrun/internal/problem"
)

// KeepEphemeral returns pod with the ephemeral containers of the pod on this host, "here". Manifests
// usually do not contain them, and `kubectl apply` keeps them, too. If pod itself lists ephemeral
// containers, KeepEphemeral returns it unchanged.
func KeepEphemeral(here, pod *corev1.Pod) *corev1.Pod {
	if len(pod.Spec.EphemeralContainers) > 0 || len(here.Spec.EphemeralContainers) == 0 {
		return pod
	}
	return WithEphemeral(pod, here.Spec.EphemeralContainers)
}

// WithEphemeral returns the pod with the given ephemeral containers.
func WithEphemeral(pod *corev1.Pod, list []corev1.EphemeralContainer) *corev1.Pod {
	out := *pod
	out.Spec.EphemeralContainers = list
	return &out
}

// AddEphemeral returns the pod with one more ephemeral container, to which it applies the
// defaults. If the pod already has a container with that name, AddEphemeral adds none. If c is
// nil, it returns the pod unchanged.
func AddEphemeral(pod *corev1.Pod, c *corev1.EphemeralContainer) *corev1.Pod {
	if c == nil || slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e corev1.EphemeralContainer) bool { return e.Name == c.Name }) {
		return pod
	}
	out := WithEphemeral(pod, append(slices.Clone(pod.Spec.EphemeralContainers), *c)).DeepCopy()
	defaultPod(out)
	return out
}

// EphemeralErrors returns the reasons why an API server would not accept an update from the
// ephemeral containers of the pod "before" to those of the pod "after"
// (ValidatePodEphemeralContainersUpdate). Either a container is invalid, or an existing one is
// missing or differs.
func EphemeralErrors(before, after *corev1.Pod) []string {
	was, will, ok := internal(before, WithEphemeral(before, after.Spec.EphemeralContainers))
	if !ok {
		return []string{"Invalid value: it cannot be converted"}
	}
	opts := podapi.GetValidationOptionsFromPodSpecAndMeta(&will.Spec, &was.Spec, &will.ObjectMeta, &was.ObjectMeta)
	opts.ResourceIsPod = true
	allowPrivileged()
	var out []string
	for _, e := range corevalidation.ValidatePodEphemeralContainersUpdate(&will, &was, opts) {
		message := e.Error()
		if e.Field == "spec.ephemeralContainers" {
			// A diff of Go structs follows.
			message, _, _ = strings.Cut(e.ErrorBody(), "\n")
		}
		out = append(out, cut(message))
	}
	return out
}

// EphemeralOnCreate is an API server's message for ephemeral containers in a new pod.
const EphemeralOnCreate = "Forbidden: cannot be set on create"

// EphemeralProblem returns the problem with which podrun refuses a pod because of its ephemeral
// containers.
func EphemeralProblem(message string) problem.Problem {
	return problem.Problem{Field: "spec.ephemeralContainers", Reason: "FieldValueForbidden", Kind: problem.Manifest, Message: message,
		Hint: "remove the field; 'podrun debug' adds an ephemeral container to a running pod"}
}

// exceptOnCreate removes the error that ephemeral containers cannot be set on create, because
// only run/prepare knows whether the pod is new.
func exceptOnCreate(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return e.Type == field.ErrorTypeForbidden && e.Field == "spec.ephemeralContainers"
	})
}
