// Package generate creates objects from command-line flags, as kubectl run, kubectl create and
// docker run do. It is pure: files, environment variables and the working directory are
// arguments. Errors name the flag with the invalid value.
package generate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/resource"
)

// Manifest returns an object as the JSON of a manifest. It omits the empty fields that the API
// types always marshal, such as status.
func Manifest(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	removeEmpty(fields)
	return json.Marshal(fields)
}

// removeEmpty removes fields whose empty value means the same as no value.
func removeEmpty(fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			removeEmpty(value)
			if len(value) == 0 && (name == "status" || name == "resources" || name == "strategy" || name == "metadata") {
				delete(fields, name)
			}
		case []any:
			for _, entry := range value {
				if entry, ok := entry.(map[string]any); ok {
					removeEmpty(entry)
				}
			}
		}
	}
}

// invalidInName are the characters that an object's name cannot contain.
var invalidInName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) })

// nameOf returns the last part of an image's name, without tag and digest. It serves as the
// name of an object. It may be empty.
func nameOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image = image[strings.LastIndex(image, "/")+1:]
	image, _, _ = strings.Cut(image, ":")
	return strings.Trim(invalidInName().ReplaceAllString(strings.ToLower(image), "-"), "-")
}

// quantity parses the value of a flag.
func quantity(flag, given, text string) (apiresource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err == nil && q.Sign() <= 0 {
		err = fmt.Errorf("must be positive")
	}
	if err != nil {
		return q, fmt.Errorf("--%s=%s: %w", flag, given, err)
	}
	return q, nil
}

// memoryUnits are docker's units, which are powers of 1,024. They must be converted, because in
// Kubernetes, m is a thousandth.
var memoryUnits = map[byte]string{'b': "", 'k': "Ki", 'm': "Mi", 'g': "Gi"}

// memory converts a quantity in docker's units (64m) to Kubernetes' units (64Mi). It returns
// any other text unchanged.
func memory(text string) string {
	lower := strings.ToLower(text)
	if trimmed := strings.TrimSuffix(lower, "b"); len(trimmed) > 1 && strings.IndexByte("kmg", trimmed[len(trimmed)-1]) >= 0 {
		lower = trimmed
	}
	if lower == "" {
		return text
	}
	if unit, ok := memoryUnits[lower[len(lower)-1]]; ok {
		return lower[:len(lower)-1] + unit
	}
	return text
}

// limits returns the resources for the flags --cpus and --memory. Either value may be "".
func limits(cpus, mem string) (corev1.ResourceRequirements, []error) {
	var errs []error
	list := corev1.ResourceList{}
	if cpus != "" {
		q, err := quantity("cpus", cpus, cpus)
		if err != nil {
			errs = append(errs, err)
		}
		list[corev1.ResourceCPU] = q
	}
	if mem != "" {
		q, err := quantity("memory", mem, memory(mem))
		if err != nil {
			errs = append(errs, err)
		}
		list[corev1.ResourceMemory] = q
	}
	if len(list) == 0 {
		return corev1.ResourceRequirements{}, nil
	}
	return corev1.ResourceRequirements{Limits: list}, errs
}

// Env converts entries of the forms NAME=VALUE and NAME. For NAME alone, it calls lookup to get the value. If lookup
// does not find a variable, Env omits it, as docker does.
func Env(pairs []string, lookup func(string) (string, bool)) ([]corev1.EnvVar, error) {
	var out []corev1.EnvVar
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if name == "" {
			return nil, fmt.Errorf("--env=%s is not of the form NAME=VALUE", pair)
		}
		if !ok {
			if value, ok = lookup(name); !ok {
				continue
			}
		}
		out = append(out, corev1.EnvVar{Name: name, Value: value})
	}
	return out, nil
}

// Lines returns the lines NAME=VALUE of an env file. It omits comments and empty lines.
func Lines(file string) []string {
	var out []string
	for line := range strings.Lines(strings.TrimPrefix(file, "\ufeff")) {
		line = strings.TrimRight(strings.TrimLeft(line, " \t"), "\r\n")
		if line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// labels converts lists such as a=b,c=d.
func labels(flag string, lists []string) (map[string]string, error) {
	out := map[string]string{}
	for _, list := range lists {
		for pair := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(pair, "=")
			if name == "" {
				return nil, fmt.Errorf("--%s=%s is not of the form NAME=VALUE", flag, list)
			}
			out[name] = value
		}
	}
	return out, nil
}
