package container

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/podrun/podrun/internal/credential"
	"github.com/podrun/podrun/internal/problem"
)

// maxExpanded limits the total size, in bytes, of one container's variables, command, arguments and subPathExprs
// after the expansion of $(VAR). It is the maximum size of an object that an API server stores (etcd's
// --max-request-bytes). The limit is necessary because variables can refer to earlier ones: if each variable refers
// twice to the previous one, the size doubles with every variable. (CVE-2019-11253 is the same problem in YAML.)
// execve(2) accepts 2 MiB with the usual stack.
const maxExpanded = 3 << 19

// environ is a container's environment. Its variables are in the order of their first declaration; the kubelet sends
// variables in random order.
type environ struct {
	names  []string
	values map[string]string
	// services contains the variables of Services (Late.ServiceEnv), to which other variables may
	// refer.
	services map[string]string
	// spent is the size of all expansions so far, in bytes. It includes variables that were
	// overwritten, because expanding these also took time.
	spent int
}

// set declares a variable, and reports whether the variable fits into the limit. If the
// variable already exists, it keeps its position and gets the new value.
func (e *environ) set(name, value string) bool {
	if !e.spend(len(name) + len(value)) {
		return false
	}
	if _, have := e.values[name]; !have {
		e.names = append(e.names, name)
	}
	e.values[name] = value
	return true
}

// spend adds to the size of all expansions, and reports whether the size is still within
// maxExpanded.
func (e *environ) spend(bytes int) bool {
	if bytes > maxExpanded-e.spent {
		return false
	}
	e.spent += bytes
	return true
}

// expand replaces $(VAR) in a text if the result fits into the limit, which it checks before it
// builds the result. The caller must call spend for the result.
func (e *environ) expand(text string) (string, bool) {
	if e.lengthOf(text) > maxExpanded-e.spent {
		return "", false
	}
	return expansion.Expand(text, expansion.MappingFuncFor(e.values, e.services)), true
}

// lengthOf returns the length that a text has after its expansion.
func (e *environ) lengthOf(text string) int {
	n := 0
	literal := expansion.Expand(text, func(name string) string {
		if value, ok := e.values[name]; ok {
			n += len(value)
		} else if value, ok := e.services[name]; ok {
			n += len(value)
		} else {
			n += len("$()") + len(name) // an unknown reference remains unchanged
		}
		return ""
	})
	return n + len(literal)
}

// tooLong returns the problem of the field at which the container's text exceeds
// maxExpanded.
func (p Plan) tooLong(field string) problem.Problem {
	bad := p.problem(field, "FieldValueTooLong", "with this value, the container's variables, command and arguments expand to more than %d bytes", maxExpanded)
	bad.Kind = problem.Manifest
	bad.Hint = "mount long values as files, and use fewer $(NAME) references"
	return bad
}

func (e environ) keyValues() []*runtimeapi.KeyValue {
	var out []*runtimeapi.KeyValue
	for _, name := range e.names {
		out = append(out, &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])})
	}
	return out
}

// reasonConfig is the kubelet's reason for a container that cannot be configured.
const reasonConfig = "CreateContainerConfigError"

// environment returns the container's variables: first those from envFrom, then those from env,
// which take precedence. $(VAR) can refer only to variables that are declared earlier.
func (p Plan) environment(late Late) (environ, problem.List) {
	env := environ{values: map[string]string{}, services: map[string]string{}}
	for _, v := range late.ServiceEnv {
		env.services[v.Name] = v.Value
	}
	var problems problem.List
	for i, from := range p.container.EnvFrom {
		field := fmt.Sprintf("envFrom[%d]", i)
		data, err := p.sources().envFrom(from)
		if err != nil {
			problems = append(problems, p.reference(field, err))
			continue
		}
		more, fits := p.addFrom(&env, field, from, data)
		problems = append(problems, more...)
		if !fits {
			return env, append(problems, p.tooLong(field))
		}
	}
	for i, v := range p.container.Env {
		value, fits := env.expand(v.Value)
		set := true
		if v.Value == "" && v.ValueFrom != nil {
			var err error
			if value, set, err = p.sources().valueFrom(v.ValueFrom, late); err != nil {
				problems = append(problems, p.reference(fmt.Sprintf("env[%d].valueFrom", i), err))
				continue
			}
		}
		if bad := p.variable(fmt.Sprintf("env[%d]", i), v.Name, value, keyOf(v.ValueFrom)); set && bad != nil {
			if problems = append(problems, *bad); !bad.Warning {
				continue
			}
		}
		if fits && set {
			fits = env.set(v.Name, value)
		}
		if !fits {
			return env, append(problems, p.tooLong(fmt.Sprintf("env[%d]", i)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env.services)) {
		if _, have := env.values[name]; !have && !env.set(name, env.services[name]) {
			return env, append(problems, p.tooLong("env"))
		}
	}
	return env, problems
}

// envFrom returns all keys of a ConfigMap or Secret. If the object is optional and missing, it
// returns nil.
func (v sources) envFrom(from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		ref := from.ConfigMapRef
		cm, err := v.configMap(ref.Name, ref.Optional)
		if cm == nil {
			return nil, err
		}
		return cm.Data, nil
	case from.SecretRef != nil:
		ref := from.SecretRef
		secret, err := v.secret(ref.Name, ref.Optional)
		if secret == nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(credential.Of(secret))) {
			return nil, sealedError{ref.Name, key}
		}
		return secretText(secret), nil
	}
	return nil, nil
}

// addFrom adds variables in the order of their names, and reports whether the variables fit into
// the limit. It skips a key that cannot be the name of a variable, with a warning. Since Kubernetes
// 1.34, the only invalid names are those that would corrupt the environment: an empty name, and
// names with =, or with bytes that are not printable (KEP-4369).
//
// It also returns the problems of values with a NUL byte.
func (p Plan) addFrom(env *environ, field string, from corev1.EnvFromSource, data map[string]string) (problems problem.List, fits bool) {
	var invalid []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name := from.Prefix + key
		if len(validation.IsRelaxedEnvVarName(name)) > 0 {
			invalid = append(invalid, name)
			continue
		}
		if bad := p.variable(field, name, data[key], keyFrom(from, key)); bad != nil {
			if problems = append(problems, *bad); !bad.Warning {
				continue
			}
		}
		if !env.set(name, data[key]) {
			return problems, false
		}
	}
	if len(invalid) == 0 {
		return problems, true
	}
	w := p.problem(field, "InvalidEnvironmentVariableNames",
		"keys %q were skipped since they are invalid environment variable names", invalid)
	w.Warning = true
	return append(problems, w), true
}

// sealedError is the error for a variable whose value would be a credential of the host.
type sealedError struct{ secret, key string }

func (e sealedError) Error() string {
	return fmt.Sprintf("key %q of Secret %q is a credential of the host: podrun does not pass it as a variable, because the runtime stores the variables of containers on the disk", e.key, e.secret)
}

// missingObject is the error for a ConfigMap or Secret that the input does not contain.
type missingObject struct{ kind, name string }

// Error returns the API server's message.
func (m missingObject) Error() string {
	return fmt.Sprintf("%s %q not found", strings.ToLower(m.kind), m.name)
}

// configMap returns the ConfigMap with the given name. If the ConfigMap is optional and missing, it returns nil,
// nil.
func (v sources) configMap(name string, optional *bool) (*corev1.ConfigMap, error) {
	if cm := v.in.ConfigMaps[name]; cm != nil {
		return cm, nil
	}
	if optional != nil && *optional {
		return nil, nil
	}
	return nil, missingObject{"ConfigMap", name}
}

func (v sources) secret(name string, optional *bool) (*corev1.Secret, error) {
	if s := v.in.Secrets[name]; s != nil {
		return s, nil
	}
	if optional != nil && *optional {
		return nil, nil
	}
	return nil, missingObject{"Secret", name}
}

// secretText returns the Secret's data as text. As in an API server, which merges stringData into
// data, stringData takes precedence.
func secretText(s *corev1.Secret) map[string]string {
	out := map[string]string{}
	for k, v := range s.Data {
		out[k] = string(v)
	}
	maps.Copy(out, s.StringData)
	return out
}

// secretValue returns the value of one key, according to the rules of secretText.
func secretValue(s *corev1.Secret, key string) (string, bool) {
	if text, ok := s.StringData[key]; ok {
		return text, true
	}
	data, ok := s.Data[key]
	return string(data), ok
}
