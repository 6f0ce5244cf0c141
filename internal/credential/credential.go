// Package credential provides keys of Secrets whose values are sealed on this host: files in systemd's directory of
// encrypted credentials, which systemd-creds decrypts with the TPM or the key of the host.
package credential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotation is the beginning of the annotations of a Secret that name credentials: podrun.dev/credential.KEY: NAME.
const Annotation = "podrun.dev/credential."

// Of returns the names of a Secret's credentials by key; nil if it has none.
func Of(s *corev1.Secret) map[string]string {
	var out map[string]string
	for a, name := range s.Annotations {
		if key, ok := strings.CutPrefix(a, Annotation); ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = name
		}
	}
	return out
}

// Validate returns the errors of a Secret's credentials.
func Validate(s *corev1.Secret) (errs field.ErrorList) {
	found := Of(s)
	for _, key := range slices.Sorted(maps.Keys(found)) {
		at := field.NewPath("metadata", "annotations").Key(Annotation + key)
		if len(validation.IsConfigMapKey(key)) > 0 {
			errs = append(errs, field.Invalid(at, key, "not a valid key of a Secret"))
		}
		if _, both := s.Data[key]; both {
			errs = append(errs, field.Invalid(at, key, "the Secret also has a value for this key"))
		}
		if !IsName(found[key]) {
			errs = append(errs, field.Invalid(at, found[key], "not the name of a credential: letters, digits, '.', '_' and '-', at most 255, without a leading '.'"))
		}
	}
	return errs
}

// IsName reports whether a text is the name of a credential. It becomes a part of a path and of an argument.
func IsName(name string) bool {
	other := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && r != '.' && r != '_' && r != '-'
	}
	return name != "" && len(name) <= 255 && name[0] != '.' && name[0] != '-' && !strings.ContainsFunc(name, other)
}

// Permitted reports whether the author of a manifest who is not trusted may use a credential in a namespace. The
// directory also has the credentials of services of the host.
func Permitted(namespace, name string) bool { return strings.HasPrefix(name, Prefix(namespace)) }

// Prefix is the beginning of the names of the credentials for a namespace.
func Prefix(namespace string) string { return fmt.Sprintf("podrun.%s.", namespace) }
