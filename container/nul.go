package container

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// hasNUL reports whether a text cannot be a variable or an argument of a program, because the kernel
// ends these at the first NUL byte. Only the OCI runtime would refuse it, when the container starts, and
// runc quotes the complete variable in its error.
func hasNUL(text string) bool { return strings.IndexByte(text, 0) >= 0 }

// nul returns the problem of a variable with a NUL byte. It names the variable and its source, but not
// the value, which may be a password.
func (p Plan) nul(field, name, source string) problem.Problem {
	if source != "" {
		source = ", from " + source + ","
	}
	bad := p.problem(field, reasonConfig, "the value of the variable %q%s contains a NUL byte, which no variable can contain", name, source)
	bad.Kind = problem.Manifest
	bad.Hint = "mount the value as a file, or encode it, for example in base64"
	return bad
}

// nulWord returns the problem of a word of a command with a NUL byte.
func (p Plan) nulWord(field string) problem.Problem {
	bad := p.problem(field, reasonConfig, "contains a NUL byte, which no argument of a program can contain")
	bad.Kind = problem.Manifest
	bad.Hint = "remove the byte, or pass the value in a file"
	return bad
}

// keyOf names the source of a variable, such as: key "password" of Secret "db". It returns "" if the
// source is a field of the pod, or the manifest itself.
func keyOf(from *corev1.EnvVarSource) string {
	switch {
	case from == nil:
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("key %q of Secret %q", from.SecretKeyRef.Key, from.SecretKeyRef.Name)
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("key %q of ConfigMap %q", from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Name)
	case from.FileKeyRef != nil:
		return fmt.Sprintf("key %q of file %q of volume %q", from.FileKeyRef.Key, from.FileKeyRef.Path, from.FileKeyRef.VolumeName)
	}
	return ""
}

// keyFrom is keyOf for a key of envFrom.
func keyFrom(from corev1.EnvFromSource, key string) string {
	source := &corev1.EnvVarSource{}
	switch {
	case from.SecretRef != nil:
		source.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: from.SecretRef.LocalObjectReference, Key: key}
	case from.ConfigMapRef != nil:
		source.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: from.ConfigMapRef.LocalObjectReference, Key: key}
	}
	return keyOf(source)
}
