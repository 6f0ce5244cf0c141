package view

import (
	"bytes"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/manifest"
)

// PodDiff returns a unified diff of two pods, or "" if apply would change nothing. Before
// is nil if the pod does not exist.
func PodDiff(before, after *corev1.Pod) (string, error) {
	var was []byte
	name := "pod " + after.Namespace + "/" + after.Name
	if before != nil {
		after = manifest.KeepUserNamespace(before, manifest.KeepEphemeral(before, after))
		if len(manifest.Changes(before, after)) == 0 {
			return "", nil
		}
		var err error
		if was, err = podYAML(name, before); err != nil {
			return "", err
		}
	}
	is, err := podYAML(name, after)
	return unifiedDiff(name, was, is), err
}

// unifiedDiff returns the unified diff of two texts, as diff -u prints it.
func unifiedDiff(name string, was, is []byte) string {
	_, text, _ := bytes.Cut(diff.Diff(name+" on this host", was, name+" in the manifest", is), []byte("\n")) // the line diff OLD NEW
	return string(text)
}

// podYAML returns the fields of a pod that apply compares.
func podYAML(name string, pod *corev1.Pod) ([]byte, error) {
	data, err := objectYAML(name, manifest.Authored(pod))
	return bytes.TrimSuffix(data, []byte("status: {}\n")), err
}

func objectYAML(name string, object any) ([]byte, error) {
	data, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}
