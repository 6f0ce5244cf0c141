package container

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// EnvChanges lists the variables that the container would get with other values,
// or not at all, than from the ConfigMaps and Secrets of before. A container
// that runs keeps what it has.
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

// redacted stands for the values of Secrets in what is printed.
const redacted = "<redacted>"

// shortestSecret is how long a value must be, in bytes, to be looked for in a
// message: a shorter one says little, and may be part of any word.
const shortestSecret = 6

// Redact replaces the values of the Secrets that the container may have in a
// message: a runtime that can't start a program tells its arguments.
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

// Redacted is the plan with all values of Secrets replaced, and with them
// whatever is made of them: other variables, arguments, paths.
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
