package container

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// maxString is the maximum size, in bytes, of one variable (NAME=value) or argument of a program,
// including the NUL byte that ends it (execve(2), MAX_ARG_STRLEN).
var maxString = 32 * os.Getpagesize()

// unusable explains why the kernel cannot pass a text to a program: it has a NUL byte, which ends the text, or
// is too long. It returns "" if the kernel can. Only the OCI runtime would refuse the text, when the container
// starts, and runc quotes a complete variable in its error.
func unusable(text string) string {
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "contains a NUL byte"
	case len(text) >= maxString:
		return fmt.Sprintf("has %d bytes, but the kernel passes at most %d bytes to a program", len(text), maxString-1)
	}
	return ""
}

// variable returns the problem of a variable that the kernel cannot pass to a program, or a warning about a
// variable that the runtime would change. It returns nil if there is none. It names the variable and its source,
// but not the value, which may be a password.
func (p Plan) variable(field, name, value, source string) *problem.Problem {
	if source != "" {
		source = ", from " + source + ","
	}
	if why := unusable(name + "=" + value); why != "" {
		bad := p.problem(field, reasonConfig, "the variable %q%s %s", name, source, why)
		bad.Kind = problem.Manifest
		bad.Hint = "mount the value as a file, or encode it, for example in base64"
		if !strings.Contains(why, "NUL") {
			bad.Hint = "mount the value as a file"
		}
		return &bad
	}
	if utf8.ValidString(value) {
		return nil
	}
	bad := p.problem(field, "InvalidEnvironmentVariable", "the value of the variable %q%s is not UTF-8: the runtime replaces the invalid bytes, because its configuration is JSON", name, source)
	bad.Warning, bad.Hint = true, "mount the value as a file, or encode it, for example in base64"
	return &bad
}

// word returns the problem of a word of a command that cannot be an argument of a program; nil if it can be.
func (p Plan) word(field, word string) *problem.Problem {
	why := unusable(word)
	if why == "" && !utf8.ValidString(word) {
		why = "is not UTF-8, which messages to the runtime require" // a string of protobuf
	}
	if why == "" {
		return nil
	}
	bad := p.problem(field, reasonConfig, "%s", why)
	bad.Kind = problem.Manifest
	bad.Hint = "pass the value in a file"
	return &bad
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
