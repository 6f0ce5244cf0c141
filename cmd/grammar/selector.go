package grammar

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
)

// ParseSelector parses the value of -l; an empty selector matches everything.
func ParseSelector(text string) (func(map[string]string) bool, error) {
	sel, err := labels.Parse(text)
	if err != nil {
		return nil, problem.UsageError(fmt.Errorf("-l %s is not a label selector: %w", shellword.Quote(text), err),
			"write labels as -l app=web, -l app=web,tier!=db or -l 'app in (web,db)'")
	}
	return func(have map[string]string) bool { return sel.Matches(labels.Set(have)) }, nil
}

// podFields returns the fields of a pod that a field selector may use: those that both an API
// server supports and podrun sets.
func podFields(p corev1.Pod) fields.Set {
	return fields.Set{
		"metadata.name":      p.Name,
		"metadata.namespace": p.Namespace,
		"spec.nodeName":      p.Spec.NodeName,
		"spec.restartPolicy": string(p.Spec.RestartPolicy),
		"status.phase":       string(p.Status.Phase),
		"status.podIP":       p.Status.PodIP,
	}
}

// ParseFieldSelector parses the value of --field-selector; an empty selector matches
// everything.
func ParseFieldSelector(text string) (func(corev1.Pod) bool, error) {
	const form = "write fields as --field-selector=status.phase=Running or --field-selector=status.phase!=Succeeded,metadata.name!=web"
	sel, err := fields.ParseSelector(text)
	if err != nil {
		return nil, problem.UsageError(fmt.Errorf("--field-selector=%s: %w", shellword.Quote(text), err), form)
	}
	known := podFields(corev1.Pod{})
	for _, r := range sel.Requirements() {
		if !known.Has(r.Field) {
			return nil, problem.UsageError(fmt.Errorf("--field-selector=%s: podrun does not select by the field %q", shellword.Quote(text), r.Field), form)
		}
	}
	return func(p corev1.Pod) bool { return sel.Matches(podFields(p)) }, nil
}
