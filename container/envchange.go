package container

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// EnvChanges returns the names of the variables whose values differ from those with the given,
// previous ConfigMaps and Secrets. It includes variables that were added or removed. A running
// container keeps the values with which it was created.
func (p Plan) EnvChanges(configMaps map[string]*corev1.ConfigMap, secrets map[string]*corev1.Secret) []string {
	before := p
	before.in.ConfigMaps, before.in.Secrets = configMaps, secrets
	was, _ := before.environment(before.placeholders(nil))
	is, _ := p.environment(p.placeholders(nil))
	var out []string
	for _, name := range slices.Concat(was.names, is.names) {
		old, had := was.values[name]
		new, has := is.values[name]
		if (had != has || old != new) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// redacted is the text that replaces values of Secrets in output.
const redacted = "<redacted>"

// shortestSecret is the minimum length, in bytes, of a value that Redact replaces. A shorter value
// reveals little, and may be part of any word.
const shortestSecret = 6

// Redact replaces the values of the container's Secrets in a message. For example, if a runtime
// cannot start a program, its error contains the program's arguments.
func (p Plan) Redact(message string) string {
	for _, s := range p.in.Secrets {
		for _, value := range secretText(s) {
			if value = strings.TrimSpace(value); len(value) >= shortestSecret {
				message = strings.ReplaceAll(message, value, redacted)
			}
		}
	}
	return message
}

// Redacted returns the plan without values of Secrets. It also replaces these values where
// variables, arguments and paths contain them.
func (p Plan) Redacted() Plan {
	secrets := make(map[string]*corev1.Secret, len(p.in.Secrets))
	for name, s := range p.in.Secrets {
		out := &corev1.Secret{Data: map[string][]byte{}}
		for key := range s.Data {
			out.Data[key] = []byte(redacted)
		}
		for key := range s.StringData {
			out.Data[key] = []byte(redacted)
		}
		secrets[name] = out
	}
	p.in.Secrets = secrets
	return p
}
