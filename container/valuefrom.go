package container

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	apiresource "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"

	"github.com/podrun/podrun/internal/credential"
)

// sources reads the values of a container's variables from the objects and fields to which the container refers.
type sources struct {
	in        *Input
	container *corev1.Container
}

func (p Plan) sources() sources { return sources{&p.in, p.container} }

// valueFrom reads a variable's value from its source. If an optional source is missing, set is
// false, and the variable must not be declared.
func (v sources) valueFrom(from *corev1.EnvVarSource, late Late) (value string, set bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = v.fieldOf(from.FieldRef, late)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = v.resourceField(from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return v.configMapKey(from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return v.secretKey(from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return v.fileKey(from.FileKeyRef, late)
	}
	return "", true, nil
}

// fieldOf reads a field of the pod. The argument late contains the fields of a running pod.
// "spec.host" is v1's old name of spec.nodeName.
func (v sources) fieldOf(ref *corev1.ObjectFieldSelector, late Late) (string, error) {
	switch ref.FieldPath {
	case "spec.nodeName", "spec.host":
		if v.in.Pod.Spec.NodeName != "" {
			return v.in.Pod.Spec.NodeName, nil
		}
		return v.in.Facts.NodeName, nil
	case "spec.serviceAccountName":
		return v.in.Pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(late.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(late.HostIPs, ","), nil
	case "status.podIP":
		return first(late.PodIPs), nil
	case "status.podIPs":
		return strings.Join(late.PodIPs, ","), nil
	}
	value, err := fieldpath.ExtractFieldPathAsString(v.in.Pod, ref.FieldPath)
	if err != nil {
		return "", fmt.Errorf("fieldRef %q: %w", ref.FieldPath, err)
	}
	return value, nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// resourceField returns a request or limit of this container, or of the container that ref names.
// If the limit is not set, it returns the pod's limit or, if that is not set either, the node's
// allocatable amount.
func (v sources) resourceField(ref *corev1.ResourceFieldSelector) (string, error) {
	name := ref.ContainerName
	if name == "" {
		name = v.container.Name
	}
	value, err := apiresource.ExtractResourceValueByContainerNameAndNodeAllocatable(ref, v.in.Pod, name, v.limits())
	if err != nil {
		return "", fmt.Errorf("resourceFieldRef %q: %w", ref.Resource, err)
	}
	return value, nil
}

// limits returns the default limits for a container.
func (v sources) limits() corev1.ResourceList {
	if !resourcehelper.IsPodLevelLimitsSet(v.in.Pod) {
		return v.in.Allocatable
	}
	out := v.in.Allocatable.DeepCopy()
	for name, q := range v.in.Pod.Spec.Resources.Limits {
		if _, have := out[name]; have && !q.IsZero() && resourcehelper.IsSupportedPodLevelResource(name) {
			out[name] = q
		}
	}
	return out
}

func (v sources) configMapKey(ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	cm, err := v.configMap(ref.Name, ref.Optional)
	if cm == nil {
		return "", false, err
	}
	value, ok := cm.Data[ref.Key]
	if !ok && (ref.Optional == nil || !*ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, v.in.ID.Namespace, ref.Name)
	}
	return value, ok, nil
}

func (v sources) secretKey(ref *corev1.SecretKeySelector) (string, bool, error) {
	s, err := v.secret(ref.Name, ref.Optional)
	if s == nil {
		return "", false, err
	}
	if sealed := credential.Of(s)[ref.Key]; sealed != "" {
		return "", false, sealedError{ref.Name, ref.Key}
	}
	value, ok := secretValue(s, ref.Key)
	if !ok && (ref.Optional == nil || !*ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, v.in.ID.Namespace, ref.Name)
	}
	return value, ok, nil
}

// fileKey returns the value that podrun has read from the file. As in the kubelet, an empty
// value counts as missing.
func (v sources) fileKey(ref *corev1.FileKeySelector, late Late) (string, bool, error) {
	value := late.FileValues[FileKey{Volume: ref.VolumeName, Path: ref.Path, Key: ref.Key}]
	if value == "" && (ref.Optional == nil || !*ref.Optional) {
		return "", false, fmt.Errorf("environment variable key %q not found in file %q of volume %q", ref.Key, ref.Path, ref.VolumeName)
	}
	return value, value != "", nil
}

// FileKeys returns the variables that podrun must read from files in volumes immediately before
// it creates the container (KEP-3721).
func (p Plan) FileKeys() []FileKey {
	var out []FileKey
	for _, v := range p.container.Env {
		if v.Value == "" && v.ValueFrom != nil && v.ValueFrom.FileKeyRef != nil {
			ref := v.ValueFrom.FileKeyRef
			out = append(out, FileKey{Volume: ref.VolumeName, Path: ref.Path, Key: ref.Key})
		}
	}
	return out
}
