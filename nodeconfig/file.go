package nodeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/podrun/podrun/problem"

	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// ReasonUnused is the reason of a warning about a field of the kubelet's that
// podrun does not use: of interest only to who asks for more.
const ReasonUnused = "Unused"

const (
	apiVersion = "kubelet.config.k8s.io/v1beta1"
	kind       = "KubeletConfiguration"
)

// Parse puts a KubeletConfiguration (kubelet.config.k8s.io/v1beta1, YAML or
// JSON) over base: a field that the file has not stays as it is there. Unknown
// fields are warnings, as for the kubelet; values that it would refuse are
// errors, and then the settings are not to be used. Problems have a field path
// and the line, but no file: only the caller knows it.
func Parse(data []byte, base Settings) (Settings, problem.List) {
	f := &file{lines: bytes.Split(data, []byte("\n"))}
	fields := f.decode(data)
	if fields == nil {
		return base, f.problems
	}
	var kc kubelet.KubeletConfiguration
	f.fill(&kc, fields)
	if len(f.problems.Errors()) == 0 {
		f.check(&kc)
	}
	f.problems.Sort()
	if len(f.problems.Errors()) > 0 {
		return base, f.problems
	}
	return merge(base, &kc), f.problems
}

// file gathers the problems of one configuration file.
type file struct {
	lines    [][]byte
	problems problem.List
}

// add reports a problem of a field, with the line of its first name.
func (f *file) add(field, reason, message, hint string, warning bool) {
	f.problems = append(f.problems, problem.Problem{Line: f.line(field), Object: kind, Field: field,
		Reason: reason, Message: message, Hint: hint, Warning: warning})
}

func (f *file) invalid(field, message, hint string) {
	f.add(field, "FieldValueInvalid", message, hint, false)
}

// line finds a top-level field in YAML; 0 in a file of another form.
func (f *file) line(field string) int {
	if i := strings.IndexAny(field, ".["); i >= 0 {
		field = field[:i]
	}
	for i, line := range f.lines {
		if rest, ok := bytes.CutPrefix(line, []byte(field)); ok && field != "" && bytes.HasPrefix(bytes.TrimLeft(rest, " "), []byte(":")) {
			return i + 1
		}
	}
	return 0
}

// decode gives the top-level fields of the file, or nil when it is no
// KubeletConfiguration.
func (f *file) decode(data []byte) map[string]json.RawMessage {
	if more := documents(data); more > 1 {
		f.add("", "InvalidYAML", fmt.Sprintf("%d documents in a file that holds one %s", more, kind), "keep that one only", false)
		return nil
	}
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil && strings.Contains(err.Error(), "already set in map") {
		f.add("", "FieldDuplicate", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:")), " "), "", true)
		raw, err = yaml.YAMLToJSON(data)
	}
	if err != nil {
		f.add("", "InvalidYAML", "not valid YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "", false)
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || len(fields) == 0 {
		f.add("", "InvalidObject", "not a "+kind, header(), false)
		return nil
	}
	for name, want := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
		var got string
		if json.Unmarshal(fields[name], &got) != nil || got != want {
			f.add(name, "FieldValueInvalid", fmt.Sprintf("must be %s", want), header(), false)
		}
		delete(fields, name)
	}
	if len(f.problems.Errors()) > 0 {
		f.problems.Sort()
		return nil
	}
	return fields
}

func header() string {
	return fmt.Sprintf("begin the file with apiVersion: %s and kind: %s", apiVersion, kind)
}

// documents counts the documents of a stream that have more than comments.
func documents(data []byte) int {
	n, content := 0, false
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, " \t\r\n")
		if bytes.HasPrefix(line, []byte("---")) {
			content, line = false, line[3:]
		}
		line = bytes.TrimLeft(line, " \t")
		if !content && len(line) > 0 && line[0] != '#' && line[0] != '%' {
			content = true
			n++
		}
	}
	return n
}

// fill decodes each field by itself, so that every wrong one is reported.
func (f *file) fill(kc *kubelet.KubeletConfiguration, fields map[string]json.RawMessage) {
	targets := map[string]reflect.Value{}
	value := reflect.ValueOf(kc).Elem()
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		targets[name] = value.Field(i)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		target, known := targets[name]
		if !known || name == "" {
			f.add(name, "FieldUnknown", "unknown field, ignored", "", true)
			continue
		}
		strict, err := kjson.UnmarshalStrict(fields[name], target.Addr().Interface())
		if err != nil {
			f.invalid(name, typeMessage(err), "")
			continue
		}
		for _, e := range strict {
			var fieldErr kjson.FieldError
			if errors.As(e, &fieldErr) {
				f.add(name+"."+fieldErr.FieldPath(), "FieldUnknown", "unknown or duplicate field, ignored", "", true)
			}
		}
		if !used[name] {
			f.add(name, ReasonUnused, "podrun does not use this field of the kubelet's", "", true)
		}
	}
}

// typeMessage says what is wrong with a value's type, without Go's types.
func typeMessage(err error) string {
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		return fmt.Sprintf("%s is not a valid %s", typeErr.Value, typeErr.Type)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// used are the fields that merge reads.
var used = map[string]bool{
	"podLogsDir": true, "registryPullQPS": true, "registryBurst": true, "clusterDomain": true, "clusterDNS": true,
	"cgroupRoot": true, "cgroupsPerQOS": true, "cgroupDriver": true, "runtimeRequestTimeout": true, "maxPods": true,
	"podPidsLimit": true, "resolvConf": true, "cpuCFSQuota": true, "cpuCFSQuotaPeriod": true,
	"serializeImagePulls": true, "maxParallelImagePulls": true, "evictionHard": true, "mergeDefaultEvictionSettings": true,
	"featureGates": true, "containerLogMaxSize": true, "containerLogMaxFiles": true, "systemReserved": true, "memorySwap": true,
	"kubeReserved": true, "allowedUnsafeSysctls": true, "seccompDefault": true, "registerWithTaints": true,
	"containerRuntimeEndpoint": true, "imageServiceEndpoint": true,
	"imagePullCredentialsVerificationPolicy": true, "preloadedImagesVerificationAllowlist": true,
}
