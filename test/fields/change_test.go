package fields

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// place is the position of a field in a decoded manifest. It consists of the field's parent, and
// the key in that parent, which is a string or an index.
type place struct {
	holder any
	key    any
}

// places finds a field in a manifest, in all elements of lists.
func places(node any, path string) []place {
	return find(node, strings.Split(strings.ReplaceAll(path, "[]", ".[]"), "."), nil)
}

func find(node any, steps []string, at *place) []place {
	if len(steps) == 0 {
		return []place{*at}
	}
	var out []place
	switch n := node.(type) {
	case map[string]any:
		if v, ok := n[steps[0]]; ok && steps[0] != "[]" {
			return find(v, steps[1:], &place{n, steps[0]})
		}
	case []any:
		if steps[0] != "[]" {
			return nil
		}
		for i, v := range n {
			out = append(out, find(v, steps[1:], &place{n, i})...)
		}
	}
	return out
}

// others are alternative values for fields that accept only certain values.
var others = map[string]any{
	"metadata.uid": "0b5fb0f5-3b1c-4d5a-9d5d-2f1b5b1e9c99", "metadata.namespace": "",
	"spec.priorityClassName":                "system-cluster-critical",
	"spec.restartPolicy":                    "Never",
	"spec.runtimeClassName":                 "",
	"spec.imagePullSecrets[].name":          "absent",
	"spec.priority":                         2000000000,
	"spec.containers[].volumeMounts[].name": "memory", "spec.containers[].env[].valueFrom.fileKeyRef.volumeName": "memory",
	"spec.containers[].volumeDevices[].name": "second",
	"spec.hostAliases[].ip":                  "192.0.2.77", "spec.dnsConfig.nameservers[]": "192.0.2.77",
	"spec.os.name": "windows",
	"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[].operator": "NotIn",
	"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchFields[].operator":      "NotIn",
	"spec.volumes[].persistentVolumeClaim.claimName": "unknown",
}

// values are alternative values of enumerations, by type.
var values = map[reflect.Type][]any{
	reflect.TypeFor[corev1.TaintEffect]():                             {"NoSchedule"},
	reflect.TypeFor[corev1.TolerationOperator]():                      {"Exists"},
	reflect.TypeFor[corev1.ContainerRestartPolicy]():                  {"OnFailure", "Always"},
	reflect.TypeFor[corev1.SeccompProfileType]():                      {"Unconfined"},
	reflect.TypeFor[corev1.AppArmorProfileType]():                     {"Unconfined"},
	reflect.TypeFor[corev1.HostPathType]():                            {"File"},
	reflect.TypeFor[corev1.Protocol]():                                {"UDP"},
	reflect.TypeFor[corev1.DNSPolicy]():                               {"Default"},
	reflect.TypeFor[corev1.PodFSGroupChangePolicy]():                  {"Always"},
	reflect.TypeFor[corev1.Capability]():                              {"CHOWN"},
	reflect.TypeFor[corev1.MountPropagationMode]():                    {"HostToContainer"},
	reflect.TypeFor[corev1.Signal]():                                  {"SIGUSR2"},
	reflect.TypeFor[corev1.ContainerRestartRuleAction]():              {"RestartAllContainers"},
	reflect.TypeFor[corev1.ContainerRestartRuleOnExitCodesOperator](): {"NotIn"},
	reflect.TypeFor[resource.Quantity]():                              {"2"},
}

// alternatives returns other values for a field that has the given value.
func alternatives(l leaf, have any) []any {
	if v, ok := others[strings.Replace(l.path, "spec.initContainers[]", "spec.containers[]", 1)]; ok {
		return []any{v}
	}
	if v, ok := values[l.of]; ok {
		return v
	}
	switch v := have.(type) {
	case bool:
		return []any{!v}
	case float64:
		return []any{v + 1, v - 1}
	case string:
		return []any{"other", v + "x", "/" + v, "192.0.2.77", "METADATA", "metadata.namespace", "limits.cpu", "requests.memory", "second"}
	case map[string]any:
		changed := map[string]any{"more": "1"}
		for k, value := range v {
			changed[k] = value
		}
		return []any{changed, map[string]any{"memory": "20Mi"}}
	}
	return nil
}

type gone struct{} // the value that removes the field

// set sets the value at a place. The returned function undo restores the old value.
func (p place) set(value any) (undo func()) {
	switch h := p.holder.(type) {
	case map[string]any:
		key := p.key.(string)
		old := h[key]
		if _, out := value.(gone); out || value == nil {
			delete(h, key)
		} else {
			h[key] = value
		}
		return func() { h[key] = old }
	case []any:
		i := p.key.(int)
		old := h[i]
		if _, out := value.(gone); !out {
			h[i] = value
		}
		return func() { h[i] = old }
	}
	return func() {}
}

func (p place) get() any {
	if h, ok := p.holder.(map[string]any); ok {
		return h[p.key.(string)]
	}
	return p.holder.([]any)[p.key.(int)]
}

// matters reports whether a valid change of the field changes podrun's actions. The result tried describes the last
// change that it tried.
func matters(t *testing.T, pod any, before string, l leaf) (does bool, tried string) {
	t.Helper()
	at := places(pod, l.path)
	if len(at) == 0 {
		return false, "no pod of testdata/pods.yaml sets it"
	}
	for _, p := range at {
		for _, value := range append(alternatives(l, p.get()), gone{}) {
			undo := p.set(value)
			after := outcomeOf(t, pod)
			undo()
			switch {
			case len(after.invalid) > 0:
				tried = after.invalid[0].String()
			case after.does != before:
				return true, ""
			default:
				tried = "changes nothing"
			}
		}
	}
	return false, tried
}

func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
