package change

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Env are changes of environment variables.
type Env struct {
	Set        []corev1.EnvVar
	Remove     []string
	Containers string // a pattern for the names of the containers
	Overwrite  bool   // whether an existing variable may get another value
}

// Add adds the changes NAME=VALUE and NAME-.
func (e *Env) Add(changes []string) error {
	pairs, err := ParsePairs(changes, "environment variable")
	if err != nil {
		return err
	}
	for _, p := range pairs.Set {
		if errs := validation.IsEnvVarName(p.Key); len(errs) > 0 {
			return fmt.Errorf("%q is not a valid key name: %s", p.Key, strings.Join(errs, "; "))
		}
		e.Set = append(e.Set, corev1.EnvVar{Name: p.Key, Value: p.Value})
	}
	e.Remove = append(e.Remove, pairs.Remove...)
	return nil
}

// AddLines adds the variables in lines of the form NAME=VALUE. The rest of a line after # is a
// comment. It ignores other lines, as kubectl does.
func (e *Env) AddLines(text string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			e.Set = append(e.Set, corev1.EnvVar{Name: name, Value: value})
		}
	}
}

// invalidInEnv are the characters that the name of a variable cannot contain.
var invalidInEnv = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[^a-zA-Z0-9_]") })

// AddKeys adds a variable for each of the keys of an object. If the argument only is not empty,
// AddKeys adds only the keys that it contains. The function source returns the reference to a
// key. renamed contains the keys for which the variable has another name than the key.
func (e *Env) AddKeys(keys, only []string, source func(key string) *corev1.EnvVarSource) (renamed []Pair) {
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if len(only) > 0 && !slices.Contains(only, key) {
			continue
		}
		name := strings.ToUpper(invalidInEnv().ReplaceAllString(key, "_"))
		if name != key {
			renamed = append(renamed, Pair{key, name})
		}
		e.Set = append(e.Set, corev1.EnvVar{Name: name, ValueFrom: source(key)})
	}
	return renamed
}

// ConfigMapKeys returns those keys of a ConfigMap that can be variables, and the function source
// for AddKeys.
func ConfigMapKeys(m *corev1.ConfigMap) ([]string, func(string) *corev1.EnvVarSource) {
	return slices.Collect(maps.Keys(m.Data)), func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: m.Name}, Key: key}}
	}
}

// SecretKeys is ConfigMapKeys for a Secret.
func SecretKeys(s *corev1.Secret) ([]string, func(string) *corev1.EnvVarSource) {
	return slices.Collect(maps.Keys(s.Data)), func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}, Key: key}}
	}
}

// Prefix adds a prefix to the names of all variables that are set.
func (e *Env) Prefix(prefix string) {
	for i := range e.Set {
		e.Set[i].Name = prefix + e.Set[i].Name
	}
}

// Empty reports whether there are no changes.
func (e Env) Empty() bool { return len(e.Set)+len(e.Remove) == 0 }

// Change returns the changed pod.
func (e Env) Change(pod *corev1.Pod) (*corev1.Pod, error) {
	return inContainers(pod, e.Containers, func(c *corev1.Container) error {
		for _, v := range e.Set {
			at := slices.IndexFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == v.Name })
			if !e.Overwrite && at >= 0 && c.Env[at].Value != v.Value {
				return fmt.Errorf("'%s' already has a value (%s), and --overwrite is false", v.Name, c.Env[at].Value)
			}
		}
		c.Env = e.changed(c.Env)
		return nil
	})
}

// changed returns the changed list. A changed variable keeps its place; new ones are added at the end, in
// the order of the command line. If the command line sets a name twice, the first value applies, as in
// kubectl.
func (e Env) changed(have []corev1.EnvVar) []corev1.EnvVar {
	done := map[string]bool{}
	for _, name := range e.Remove {
		done[name] = true
	}
	set := func(name string) int {
		return slices.IndexFunc(e.Set, func(v corev1.EnvVar) bool { return v.Name == name })
	}
	var out []corev1.EnvVar
	for _, v := range have {
		at := set(v.Name)
		switch {
		case done[v.Name]:
		case at >= 0:
			done[v.Name] = true
			out = append(out, e.Set[at])
		default:
			out = append(out, v)
		}
	}
	for _, v := range e.Set {
		if !done[v.Name] {
			done[v.Name] = true
			out = append(out, v)
		}
	}
	return out
}

// Listed returns the environment of the containers that match, as lines. A value is NAME=VALUE,
// and a reference is a comment.
func (e Env) Listed(pod *corev1.Pod) (lines []string, err error) {
	_, err = inContainers(pod, e.Containers, func(c *corev1.Container) error {
		lines = append(lines, fmt.Sprintf("# Pod %s, container %s", pod.Name, c.Name))
		for _, v := range c.Env {
			if v.ValueFrom == nil {
				lines = append(lines, v.Name+"="+v.Value)
			} else {
				lines = append(lines, fmt.Sprintf("# %s from %s", v.Name, reference(v.ValueFrom)))
			}
		}
		return nil
	})
	return lines, err
}

// reference describes the source of a variable in kubectl's words.
func reference(from *corev1.EnvVarSource) string {
	switch {
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("configmap %s, key %s", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key)
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("secret %s, key %s", from.SecretKeyRef.Name, from.SecretKeyRef.Key)
	case from.FieldRef != nil:
		return "field path " + from.FieldRef.FieldPath
	case from.ResourceFieldRef != nil && from.ResourceFieldRef.ContainerName != "":
		return "resource field " + from.ResourceFieldRef.ContainerName + "/" + from.ResourceFieldRef.Resource
	case from.ResourceFieldRef != nil:
		return "resource field " + from.ResourceFieldRef.Resource
	case from.FileKeyRef != nil:
		return fmt.Sprintf("file %s of volume %s, key %s", from.FileKeyRef.Path, from.FileKeyRef.VolumeName, from.FileKeyRef.Key)
	}
	return "invalid valueFrom"
}
