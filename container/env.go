package container

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/podrun/podrun/problem"
)

// environ is an environment in the order in which variables were first
// declared. The kubelet sends them in random order.
type environ struct {
	names  []string
	values map[string]string
}

// set declares a variable; one declared before keeps its place and gets the
// new value.
func (e *environ) set(name, value string) {
	if _, have := e.values[name]; !have {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e environ) keyValues() []*runtimeapi.KeyValue {
	var out []*runtimeapi.KeyValue
	for _, name := range e.names {
		out = append(out, &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])})
	}
	return out
}

// reasonConfig is the kubelet's reason for a container that can't be
// configured.
const reasonConfig = "CreateContainerConfigError"

// environment is the container's: envFrom first, then env, which overrides it.
// A $(VAR) refers to what was declared above it.
func (p Plan) environment(late Late) (environ, problem.List) {
	env := environ{values: map[string]string{}}
	var problems problem.List
	for i, from := range p.container.EnvFrom {
		field := fmt.Sprintf("envFrom[%d]", i)
		data, err := p.envFrom(from)
		if err != nil {
			problems = append(problems, p.reference(field, err))
			continue
		}
		problems = append(problems, p.addFrom(&env, field, from.Prefix, data)...)
	}
	for i, v := range p.container.Env {
		value, set := expansion.Expand(v.Value, expansion.MappingFuncFor(env.values)), true
		if v.Value == "" && v.ValueFrom != nil {
			var err error
			if value, set, err = p.valueFrom(v.ValueFrom, late); err != nil {
				problems = append(problems, p.reference(fmt.Sprintf("env[%d].valueFrom", i), err))
				continue
			}
		}
		if set {
			env.set(v.Name, value)
		}
	}
	return env, problems
}

// envFrom reads all of a ConfigMap or a Secret; nothing where it is missing and
// optional.
func (p Plan) envFrom(from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		ref := from.ConfigMapRef
		cm, err := p.configMap(ref.Name, ref.Optional)
		if cm == nil {
			return nil, err
		}
		return cm.Data, nil
	case from.SecretRef != nil:
		ref := from.SecretRef
		secret, err := p.secret(ref.Name, ref.Optional)
		if secret == nil {
			return nil, err
		}
		return secretText(secret), nil
	}
	return nil, nil
}

// addFrom adds variables in the order of their names. A key that can't be a
// variable's name is left out with a warning; since Kubernetes 1.34 that is
// only what breaks the environment itself: an empty name, =, or bytes that
// don't print (KEP-4369).
func (p Plan) addFrom(env *environ, field, prefix string, data map[string]string) problem.List {
	var invalid []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name := prefix + key
		if len(validation.IsRelaxedEnvVarName(name)) > 0 {
			invalid = append(invalid, name)
			continue
		}
		env.set(name, data[key])
	}
	if len(invalid) == 0 {
		return nil
	}
	w := p.problem(field, "InvalidEnvironmentVariableNames",
		"keys %q were skipped since they are invalid environment variable names", invalid)
	w.Warning = true
	return problem.List{w}
}

// configMap finds a ConfigMap. It is nil with no error where it is missing and
// optional. The text of the error is the API server's.
func (p Plan) configMap(name string, optional *bool) (*corev1.ConfigMap, error) {
	if cm := p.in.ConfigMaps[name]; cm != nil {
		return cm, nil
	}
	if optional != nil && *optional {
		return nil, nil
	}
	return nil, fmt.Errorf("configmap %q not found", name)
}

func (p Plan) secret(name string, optional *bool) (*corev1.Secret, error) {
	if s := p.in.Secrets[name]; s != nil {
		return s, nil
	}
	if optional != nil && *optional {
		return nil, nil
	}
	return nil, fmt.Errorf("secret %q not found", name)
}

// secretText is the Secret's data as text; stringData, which a server would
// have moved there, counts over it.
func secretText(s *corev1.Secret) map[string]string {
	out := map[string]string{}
	for k, v := range s.Data {
		out[k] = string(v)
	}
	maps.Copy(out, s.StringData)
	return out
}
