package manifest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
)

func (l *loader) pod(it item, h header) {
	var pod corev1.Pod
	if l.decode(it, l.objectName(h), &pod) {
		l.takePod(it, &pod, definedByPod())
	}
}

// podSpec is the spec of a pod, or of a pod template, with its place in the input.
type podSpec struct {
	l      *loader
	it     item
	object string // in problems
	spec   *corev1.PodSpec
}

// problem returns a problem with a field, whose path begins with the pod.
func (s podSpec) problem(field, reason, message string) problem.Problem {
	return s.it.problem(s.object, s.it.field(field), reason, message)
}

// takePod sets the defaults of a pod and validates it. The pod was decoded, or created from the
// template of an object of another kind.
func (l *loader) takePod(it item, pod *corev1.Pod, by *Definition) {
	kind := by.Kind
	l.serverFields(&pod.ObjectMeta, true)
	pod.Annotations = withoutInitContainers(pod.Annotations)
	pod.TypeMeta = typeMeta("v1", "Pod")
	pod.Status = corev1.PodStatus{}
	nodeName := pod.Spec.NodeName
	pod.Spec.NodeName = ""
	object := nameOf(kind, &pod.ObjectMeta)
	before := len(l.problems.Errors())
	s := podSpec{l: l, it: it, object: object, spec: &pod.Spec}
	s.tokenVolumes()
	if pod.UID != "" && !identity.SafeUID(string(pod.UID)) {
		p := it.problem(object, "metadata.uid", "FieldValueInvalid", "a UID is 1 to 128 letters, digits and dashes: it becomes part of a path")
		p.Hint = "remove metadata.uid: podrun then generates a UID"
		l.add(p)
	}
	if l.unnamed(it, object, &pod.ObjectMeta) {
		return
	}
	if !s.count() {
		return
	}
	s.toEnd()
	s.override()
	s.hostPaths()
	s.mistakes()
	wroteDNS := pod.Spec.DNSPolicy != ""
	defaultPod(pod)
	s.validatePod(pod)
	if len(l.problems.Errors()) > before || !l.claim(it, namesOf(kind), qualified(&pod.ObjectMeta)) {
		return
	}
	out := Pod{Object: pod, Position: it.position(), NodeName: nodeName, Definition: by, WroteDNSPolicy: wroteDNS, item: it}
	if kind != "Pod" {
		out.From = kind + " " + pod.Name
	}
	l.objects.Pods = append(l.objects.Pods, out)
}

// initContainerAnnotations are the annotations in which Kubernetes 1.4 to 1.7 stored init containers.
var initContainerAnnotations = []string{
	"pod.beta.kubernetes.io/init-containers", "pod.beta.kubernetes.io/init-container-statuses",
	"pod.alpha.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-container-statuses",
}

// withoutInitContainers returns annotations without initContainerAnnotations, which the API drops when it
// converts a pod (dropInitContainerAnnotations in pkg/apis/core/v1).
func withoutInitContainers(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	for _, key := range initContainerAnnotations {
		delete(out, key)
	}
	return out
}

// count refuses a pod with too many containers, and an input with too many pods or
// containers.
func (s podSpec) count() bool {
	n := len(s.spec.InitContainers) + len(s.spec.Containers) + len(s.spec.EphemeralContainers)
	s.l.containers += n
	switch {
	case n > maxContainers:
		s.l.add(s.problem("spec.containers", "FieldValueTooMany", fmt.Sprintf("the pod has %d containers, more than the limit of %d", n, maxContainers)))
		return false
	case len(s.l.objects.Pods) == maxPods:
		s.l.stop(s.it.doc, "more than %d pods", maxPods)
		return false
	case s.l.containers > maxAllContainers:
		s.l.stop(s.it.doc, "more than %d containers", maxAllContainers)
		return false
	}
	return true
}

// toEnd applies the options RestartPolicy and ToEnd. It must run before defaulting: after it,
// an omitted policy looks like an explicit Always.
func (s podSpec) toEnd() {
	switch {
	case s.l.opts.RestartPolicy != "":
		s.spec.RestartPolicy = s.l.opts.RestartPolicy
	case !s.l.opts.ToEnd:
	case s.spec.RestartPolicy == "":
		s.spec.RestartPolicy = corev1.RestartPolicyNever
		p := s.problem("spec.restartPolicy", "RestartPolicy", "is not set: defaults to Never, because the pod must complete")
		p.Warning = true
		s.l.add(p)
	case s.spec.RestartPolicy == corev1.RestartPolicyAlways:
		p := s.problem("spec.restartPolicy", "RestartPolicy", "a pod with restartPolicy Always never completes")
		p.Hint = "use --restart-policy=Never or OnFailure"
		p.Kind = problem.Usage
		s.l.add(p)
	}
}

// maxWarned is the maximum size of an object, as JSON, for which podrun computes Kubernetes'
// warnings. maxWarnedPorts is the maximum number of ports. The time for warnings grows
// quadratically with the number of ports: for 7,000 ports, it was 100 s.
const (
	maxWarned      = 256 << 10
	maxWarnedPorts = 300
)

func ports(spec *corev1.PodSpec) int {
	n := 0
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			n += len(list[i].Ports)
		}
	}
	return n
}

// validatePod reports the errors and warnings of the API server. If the feature gate of a field
// is disabled, it drops the field with a warning. (The API server drops it silently.)
func (s podSpec) validatePod(pod *corev1.Pod) {
	var internal core.Pod
	if err := coredefaults.Convert_v1_Pod_To_core_Pod(pod, &internal, nil); err != nil {
		s.l.add(s.it.problem(s.object, "", "FieldValueInvalid", err.Error()))
		return
	}
	dropped := internal.DeepCopy()
	podapi.DropDisabledPodFields(dropped, nil)
	if !equality.Semantic.DeepEqual(&internal, dropped) {
		s.dropDisabled(pod, dropped)
	}
	opts := podapi.GetValidationOptionsFromPodSpecAndMeta(&dropped.Spec, nil, &dropped.ObjectMeta, nil)
	opts.ResourceIsPod = true
	allowPrivileged()
	s.l.fieldErrors(s.it, s.object, exceptOnCreate(corevalidation.ValidatePodCreate(dropped, opts)))
	if len(s.it.raw) > maxWarned || ports(&pod.Spec) > maxWarnedPorts {
		return
	}
	warnings := podapi.GetWarningsForPod(context.Background(), dropped, nil)
	for i, text := range warnings {
		if !slices.Contains(warnings[max(0, i-1):i], text) {
			s.warn(text)
		}
	}
}

// allowPrivileged makes validation accept privileged containers, as the kubelet and every API
// server do. It sets a process-wide option of Kubernetes' code.
func allowPrivileged() { capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true}) }

// dropDisabled removes the fields whose feature gates are disabled from the pod, and reports these
// fields.
func (s podSpec) dropDisabled(pod *corev1.Pod, dropped *core.Pod) {
	var kept corev1.Pod
	if err := coredefaults.Convert_core_Pod_To_v1_Pod(dropped, &kept, nil); err != nil {
		s.l.add(s.it.problem(s.object, "", "FieldValueInvalid", err.Error()))
		return
	}
	kept.TypeMeta = pod.TypeMeta
	for _, path := range missing(pod, &kept) {
		p := s.problem(path, "FeatureGateDisabled", "ignored: the feature gate of this field is disabled by default in Kubernetes")
		p.Warning = true
		s.l.add(p)
	}
	*pod = kept
}

// warn adds a warning of Kubernetes' code, which has the form "path: text" or "text".
func (s podSpec) warn(text string) {
	path, rest, ok := strings.Cut(text, ": ")
	if !ok || strings.ContainsAny(path, " \"") || !strings.HasPrefix(path, "spec") && !strings.HasPrefix(path, "metadata") {
		path, rest = "", text
	}
	p := s.problem(path, "APIWarning", rest)
	p.Warning = true
	s.l.add(p)
}

const appArmorAnnotation = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix

// syncAppArmor copies the profiles of the deprecated annotations to the fields, because the
// kubelet reads only the fields. An API server does so on create (KEP-24). If an annotation does
// not name a valid profile, validation reports that.
func syncAppArmor(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			value, ok := pod.Annotations[appArmorAnnotation+c.Name]
			if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
				continue
			}
			profile := appArmorProfile(value)
			if profile == nil || pod.Spec.SecurityContext != nil && equality.Semantic.DeepEqual(pod.Spec.SecurityContext.AppArmorProfile, profile) {
				continue
			}
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = profile
		}
	}
}

// appArmorProfile parses the value of an AppArmor annotation. If the value does not name a
// profile, it returns nil.
func appArmorProfile(value string) *corev1.AppArmorProfile {
	switch local, isLocal := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix); {
	case value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case isLocal && strings.TrimSpace(local) != "":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	}
	return nil
}
