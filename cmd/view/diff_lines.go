package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/manifest"
)

// maxDiffLines limits the comparison of lines, whose time is quadratic in their number. If the
// YAML of a pod has more lines, podDiff lists the changed fields instead.
const maxDiffLines = 20000

// PodDiff returns a unified diff of two pods, or "" if apply would change nothing. Before
// is nil if the pod does not exist.
func PodDiff(before, after *corev1.Pod) (string, error) {
	var was []string
	name := after.Namespace + "/" + after.Name
	if before != nil {
		after = manifest.KeepUserNamespace(before, manifest.KeepEphemeral(before, after))
		changes := manifest.Changes(before, after)
		if len(changes) == 0 {
			return "", nil
		}
		lines, err := podLines(before)
		if err != nil {
			return "", err
		}
		if was = lines; len(was) > maxDiffLines {
			return fmt.Sprintf("pod %s: %s\n", name, strings.Join(changes, ", ")), nil
		}
	}
	is, err := podLines(after)
	if err != nil {
		return "", err
	}
	if len(is) > maxDiffLines {
		return fmt.Sprintf("pod %s: more than %d lines differ\n", name, maxDiffLines), nil
	}
	return unifiedDiff("pod "+name, was, is)
}

func unifiedDiff(name string, was, is []string) (string, error) {
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: was, FromFile: name + " on this host", B: is, ToFile: name + " in the manifest", Context: 3})
}

// podLines returns the fields of a pod that apply compares, as lines of YAML.
func podLines(pod *corev1.Pod) ([]string, error) {
	lines, err := yamlLines("pod "+pod.Namespace+"/"+pod.Name, manifest.Authored(pod))
	return slices.DeleteFunc(lines, func(line string) bool { return line == "status: {}\n" }), err
}

func yamlLines(name string, object any) ([]string, error) {
	data, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return slices.Collect(strings.Lines(string(data))), nil
}
