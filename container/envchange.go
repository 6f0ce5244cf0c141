package container

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri"
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

// Redact replaces the values of the container's Secrets in a message, also in the forms in which
// programs quote them. For example, if a runtime cannot start a program, its error contains the
// program's arguments. Redact also cuts the message after the name of a variable of the container with
// "=", because the value follows, in a form that depends on the runtime.
func (p Plan) Redact(message string) string {
	var values []string
	for _, s := range p.in.Secrets {
		for _, value := range secretText(s) {
			if value = strings.TrimSpace(value); len(value) >= shortestSecret {
				values = append(values, value)
			}
		}
	}
	// A value may be a part of another one, which therefore comes first.
	slices.SortFunc(values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, value := range values {
		message = replaceQuoted(message, value)
	}
	env, _ := p.environment(p.placeholders(nil))
	for _, name := range env.names {
		message = cutVariable(message, name)
	}
	return cri.CutEnvironment(message)
}

// replaceQuoted replaces a value as it is, as Go and C quote it, and as JSON.
func replaceQuoted(message, value string) string {
	forms := []string{value, strings.Trim(strconv.Quote(value), `"`), strings.Trim(strconv.QuoteToASCII(value), `"`)}
	if data, err := json.Marshal(value); err == nil {
		forms = append(forms, strings.Trim(string(data), `"`))
	}
	for _, form := range forms {
		if len(form) >= shortestSecret {
			message = strings.ReplaceAll(message, form, redacted)
		}
	}
	return message
}

// cutVariable cuts a message after NAME=. The name must not be the end of a longer word.
func cutVariable(message, name string) string {
	for at := 0; ; {
		found := strings.Index(message[at:], name+"=")
		if found < 0 {
			return message
		}
		at += found
		if at == 0 || !isWord(message[at-1]) {
			return message[:at+len(name)+1] + redacted
		}
		at += len(name)
	}
}

func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z'
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
