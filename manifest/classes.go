package manifest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	"github.com/podrun/podrun/internal/problem"
)

// systemClasses are the PriorityClasses that exist in every cluster (pkg/apis/scheduling,
// SystemPriorityClasses).
var systemClasses = map[string]int32{
	scheduling.SystemClusterCritical: scheduling.SystemCriticalPriority,
	scheduling.SystemNodeCritical:    scheduling.SystemCriticalPriority + 1000,
}

// WithClasses returns the pod with the fields that an API server sets because of the pod's
// PriorityClass and RuntimeClass (plugin/pkg/admission/{priority,runtimeclass}). These are
// priority and preemption policy, overhead, node selector and tolerations. If a class is
// missing or contradicts the pod, this is a problem of the manifest. If a PriorityClass is
// missing but spec.priority is set, as in a pod that was exported from a cluster, WithClasses
// keeps the priority. It does not report a missing RuntimeClass, because prepare.RuntimeHandler
// does.
func WithClasses(pod *corev1.Pod, o *Objects) (*corev1.Pod, problem.List) {
	out := pod.DeepCopy()
	var problems problem.List
	bad := func(field, reason, message, hint string) {
		problems = append(problems, problem.Problem{Field: field, Reason: reason, Message: message, Hint: hint, Kind: problem.Manifest})
	}
	setPriority(&out.Spec, o.PriorityClasses, bad)
	if name := out.Spec.RuntimeClassName; name != nil {
		if class := o.RuntimeClasses[*name]; class != nil {
			setRuntimeClass(&out.Spec, class, bad)
		}
	}
	return out, problems
}

// setPriority sets the priority of spec.priorityClassName. If this is empty, it sets the
// priority of the input's default PriorityClass.
func setPriority(spec *corev1.PodSpec, classes map[string]*schedulingv1.PriorityClass, bad func(field, reason, message, hint string)) {
	name := spec.PriorityClassName
	class := classes[name]
	if name == "" {
		if class = globalDefault(classes); class == nil || spec.Priority != nil {
			return
		}
		spec.PriorityClassName = class.Name
	}
	value, system := systemClasses[name]
	switch {
	case class != nil:
		value = class.Value
	case !system && spec.Priority != nil:
		return
	case !system:
		bad("spec.priorityClassName", "NotFound", fmt.Sprintf("no PriorityClass with name %s was found", name),
			"add the PriorityClass to the manifest, or use system-cluster-critical or system-node-critical")
		return
	}
	if spec.Priority != nil && *spec.Priority != value {
		bad("spec.priority", "FieldValueForbidden",
			fmt.Sprintf("%d differs from the value of the PriorityClass %s, which is %d", *spec.Priority, spec.PriorityClassName, value), "remove the field")
		return
	}
	spec.Priority = &value
	if class != nil && spec.PreemptionPolicy == nil {
		spec.PreemptionPolicy = class.PreemptionPolicy
	}
}

// globalDefault returns the PriorityClass of pods without priorityClassName. If there are
// several, it returns the one with the smallest value, like the API server.
func globalDefault(classes map[string]*schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		if c := classes[name]; c.GlobalDefault && (found == nil || c.Value < found.Value) {
			found = c
		}
	}
	return found
}

// setRuntimeClass adds the overhead and scheduling of a RuntimeClass (KEP-688).
func setRuntimeClass(spec *corev1.PodSpec, class *nodev1.RuntimeClass, bad func(field, reason, message, hint string)) {
	if o := class.Overhead; o != nil {
		if len(spec.Overhead) > 0 && !equality.Semantic.DeepEqual(spec.Overhead, o.PodFixed) {
			bad("spec.overhead", "FieldValueForbidden", fmt.Sprintf("the pod's overhead differs from that of the RuntimeClass %s", class.Name), "remove the field")
		} else {
			spec.Overhead = maps.Clone(o.PodFixed)
		}
	}
	if class.Scheduling == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		want := class.Scheduling.NodeSelector[key]
		if have, ok := spec.NodeSelector[key]; ok && have != want {
			bad("spec.nodeSelector", "FieldValueForbidden",
				fmt.Sprintf("%s=%s conflicts with the RuntimeClass %s, which sets %s=%s", key, have, class.Name, key, want), "")
			continue
		}
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[key] = want
	}
	for _, t := range class.Scheduling.Tolerations {
		same := func(have corev1.Toleration) bool { return reflect.DeepEqual(have, t) }
		if !slices.ContainsFunc(spec.Tolerations, same) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
}
