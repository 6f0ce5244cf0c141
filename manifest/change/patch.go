package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podrun/podrun/manifest/generate"
)

// PatchType is the type of a patch, a value of kubectl patch --type.
type PatchType string

// The types of patches.
const (
	Strategic PatchType = "strategic"
	Merge     PatchType = "merge"
	JSON      PatchType = "json"
)

// The limits of an API server for JSON patches.
const (
	maxOperations = 10000
	// number of bytes that copy operations may add
	maxCopied = 3 << 20
)

// The limit is set here, because the package jsonpatch has only a global variable for it.
func init() { jsonpatch.AccumulatedCopySizeLimit = maxCopied }

// Patch applies a patch to a definition. Both are JSON, and so is the result.
func Patch(definition []byte, kind PatchType, patch []byte) ([]byte, error) {
	switch kind {
	case JSON:
		return applyJSON(definition, patch)
	case Merge:
		return jsonpatch.MergePatch(definition, patch)
	case Strategic:
		return strategicpatch.StrategicMergePatch(definition, patch, corev1.Pod{})
	}
	return nil, fmt.Errorf("--type must be one of json, merge, strategic, not %q", string(kind))
}

// PatchPod applies a patch to the definition of a pod. It returns the result as JSON.
func PatchPod(pod *corev1.Pod, kind PatchType, patch []byte) ([]byte, error) {
	definition, err := generate.Manifest(pod)
	if err != nil {
		return nil, err
	}
	return Patch(definition, kind, patch)
}

// applyJSON applies a JSON patch (RFC 6902).
func applyJSON(definition, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	if len(operations) > maxOperations {
		return nil, fmt.Errorf("the patch has %d operations, more than the limit of %d", len(operations), maxOperations)
	}
	return operations.Apply(definition)
}

// Edited returns the strategic merge patch from a definition to its edited version. podrun can also apply
// the patch to a definition that another command has changed. If the kind or the name differs, Edited
// returns an error.
func Edited(original, edited []byte) ([]byte, error) {
	patch, err := strategicpatch.CreateTwoWayMergePatch(original, edited, corev1.Pod{},
		mergepatch.RequireKeyUnchanged("apiVersion"), mergepatch.RequireKeyUnchanged("kind"),
		mergepatch.RequireMetadataKeyUnchanged("name"), mergepatch.RequireMetadataKeyUnchanged("namespace"))
	if mergepatch.IsPreconditionFailed(err) {
		return nil, errors.New("at least one of apiVersion, kind, name and namespace was changed")
	}
	return patch, err
}

// templates are the paths of the pod template in a workload.
var templates = [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}}

// OfTemplate converts a patch of a workload, such as {"spec":{"template":{"spec":…}}}, to the patch of
// the workload's pod. It returns a patch of a Pod unchanged. rest lists the fields outside the
// template, which podrun does not have.
func OfTemplate(kind PatchType, patch []byte) (ofPod []byte, rest []string, err error) {
	if kind == JSON {
		return operationsOfTemplate(patch)
	}
	for _, path := range templates {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(patch, &fields); err != nil {
			return nil, nil, err
		}
		template, rest, found := cutTemplate(fields, path, "")
		if found {
			slices.Sort(rest)
			return template, rest, nil
		}
	}
	var ofWorkload struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	if json.Unmarshal(patch, &ofWorkload) == nil {
		for name := range ofWorkload.Spec {
			if slices.Contains(workloadFields, name) {
				rest = append(rest, "spec."+name)
			}
		}
	}
	slices.Sort(rest)
	return patch, rest, nil
}

// workloadFields are the fields that the specs of workloads have and the spec of a Pod does
// not.
var workloadFields = []string{"backoffLimit", "completions", "concurrencyPolicy", "minReadySeconds", "paused", "parallelism", "podManagementPolicy", "progressDeadlineSeconds",
	"replicas", "revisionHistoryLimit", "schedule", "selector", "serviceName", "startingDeadlineSeconds", "strategy", "suspend", "ttlSecondsAfterFinished", "updateStrategy", "volumeClaimTemplates"}

// cutTemplate returns the value at a path, and the paths of all other fields.
func cutTemplate(fields map[string]json.RawMessage, path []string, at string) (template []byte, rest []string, found bool) {
	value, ok := fields[path[0]]
	if !ok {
		return nil, nil, false
	}
	if len(path) == 1 {
		template, found = value, true
	} else {
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) != nil {
			return nil, nil, false
		}
		template, rest, found = cutTemplate(inner, path[1:], at+path[0]+".")
	}
	for name := range fields {
		if name != path[0] && name != "apiVersion" && name != "kind" {
			rest = append(rest, at+name)
		}
	}
	return template, rest, found
}

// operationsOfTemplate is OfTemplate for a JSON patch.
func operationsOfTemplate(patch []byte) (ofPod []byte, rest []string, err error) {
	var operations []map[string]json.RawMessage
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, nil, err
	}
	converted := 0
	for _, operation := range operations {
		for _, key := range []string{"path", "from"} {
			var path string
			if json.Unmarshal(operation[key], &path) != nil {
				continue
			}
			for _, place := range templates {
				if inner, ok := strings.CutPrefix(path, "/"+strings.Join(place, "/")+"/"); ok {
					// Marshaling a string cannot fail.
					operation[key], _ = json.Marshal("/" + inner)
					path = ""
					converted++
					break
				}
			}
			if path != "" {
				rest = append(rest, path)
			}
		}
	}
	if converted == 0 {
		rest = slices.DeleteFunc(rest, func(path string) bool {
			field, _, _ := strings.Cut(strings.TrimPrefix(path, "/spec/"), "/")
			return !strings.HasPrefix(path, "/spec/") || !slices.Contains(workloadFields, field)
		})
		return patch, rest, nil
	}
	ofPod, err = json.Marshal(operations)
	return ofPod, rest, err
}
