package nodeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// ReasonUnused is the reason of a warning about a kubelet field that podrun does not use. Only
// --verbose shows this warning.
const ReasonUnused = "Unused"

// A settings file may contain the kinds kubeletKind and podrunKind. kinds maps the two kinds to their apiVersions.
const (
	kubeletKind = "KubeletConfiguration"
	podrunKind  = "PodrunConfiguration"
)

var kinds = map[string]string{kubeletKind: "kubelet.config.k8s.io/v1beta1", podrunKind: "podrun.dev/v1alpha1"}

// Parse overrides base with a settings file. The file is a KubeletConfiguration
// (kubelet.config.k8s.io/v1beta1), a PodrunConfiguration (podrun.dev/v1alpha1) or both. Both are
// documents of one YAML stream; a single one may also be JSON. A field that the file omits keeps
// its value in base.
//
// An unknown field of a KubeletConfiguration is a warning, as in the kubelet. An unknown field
// of a PodrunConfiguration is an error. So are duplicate fields, values that the kubelet would
// reject, other kinds, and a kind that occurs twice. If there is an error, Parse returns base
// unchanged. Problems have a field path and a line, but no file name, which only the caller knows.
func Parse(data []byte, base Settings) (Settings, problem.List) {
	docs := split(data)
	if len(docs) == 0 {
		return base, problem.List{{Reason: "InvalidObject", Message: "the file does not contain a document", Hint: header()}}
	}
	out, problems := parseAll(docs, base)
	// The profile's settings are defaults for the whole file.
	if len(problems.Errors()) == 0 && out.Profile != "" {
		out, problems = parseAll(docs, withProfile(base, out.Profile))
	}
	problems.Sort()
	if len(problems.Errors()) > 0 {
		return base, problems
	}
	return out, problems
}

// parseAll applies the documents to base, one after the other.
func parseAll(docs []document, base Settings) (Settings, problem.List) {
	out, seen := base, map[string]int{}
	var problems problem.List
	if len(docs) > maxDocuments {
		problems = problem.List{{Reason: "InvalidObject", Message: fmt.Sprintf("%d documents, more than the limit of %d", len(docs), maxDocuments), Hint: "keep one document of each kind"}}
		docs = docs[:maxDocuments]
	}
	for _, d := range docs {
		f := &file{first: d.first}
		out = f.parse(d.text, out, seen)
		problems = append(problems, f.problems...)
	}
	return out, problems
}

// The limits on the number of problems that Parse reports. Parse always rejects a file with more documents than
// kinds.
const (
	maxDocuments = 8
	// A document may have this many errors, and this many warnings.
	maxProblems = 100
)

// file collects the problems of one document of a settings file.
type file struct {
	// kind is "" until it is known.
	kind string
	// The document begins at this line of the file.
	first    int
	places   []place
	problems problem.List
}

// parse applies one document to base. seen maps the kinds of earlier documents to their lines.
func (f *file) parse(text []byte, base Settings, seen map[string]int) Settings {
	fields := f.decode(text)
	if fields == nil {
		return base
	}
	if line := seen[f.kind]; line > 0 {
		f.add("kind", "FieldValueInvalid", fmt.Sprintf("%s is already defined at line %d", f.kind, line), "keep one document of each kind", false)
		return base
	}
	seen[f.kind] = f.line("kind")
	if f.kind == podrunKind {
		return f.podrun(fields, base)
	}
	var kc kubelet.KubeletConfiguration
	f.fill(&kc, fields)
	if len(f.problems.Errors()) == 0 {
		f.check(&kc)
	}
	if len(f.problems.Errors()) > 0 {
		return base
	}
	return merge(base, &kc)
}

// add reports a problem of a field, with its line.
func (f *file) add(field, reason, message, hint string, warning bool) {
	f.addAt(f.line(field), field, reason, message, hint, warning)
}

func (f *file) addAt(line int, field, reason, message, hint string, warning bool) {
	same := 0
	for _, p := range f.problems {
		if p.Warning == warning {
			same++
		}
	}
	if same < maxProblems {
		f.problems = append(f.problems, problem.Problem{Line: line, Object: f.kind, Field: field,
			Reason: reason, Message: message, Hint: hint, Warning: warning})
	}
}

func (f *file) invalid(field, message, hint string) {
	f.add(field, "FieldValueInvalid", message, hint, false)
}

// decode returns the fields of the document except apiVersion and kind. It returns nil if the
// document has another kind.
func (f *file) decode(data []byte) map[string]json.RawMessage {
	places, err := placesOf(data)
	f.places = places
	raw, jsonErr := yaml.YAMLToJSON(data)
	if err = errors.Join(err, jsonErr); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		f.add("", "InvalidYAML", "not valid YAML: "+strings.TrimPrefix(first, "yaml: "), "", false)
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || len(fields) == 0 {
		f.add("", "InvalidObject", "not a mapping", header(), false)
		return nil
	}
	if !f.identify(fields) {
		return nil
	}
	for _, p := range places {
		if p.again > 0 {
			f.addAt(f.first+p.line-1, p.path, "FieldDuplicate", fmt.Sprintf("already defined at line %d", f.first+p.again-1), "", f.kind == kubeletKind)
		}
	}
	return fields
}

// identify removes apiVersion and kind from the fields. It reports whether podrun supports
// them.
func (f *file) identify(fields map[string]json.RawMessage) bool {
	var kind, version string
	// A value that is not a string counts as missing.
	_ = json.Unmarshal(fields["kind"], &kind)
	_ = json.Unmarshal(fields["apiVersion"], &version)
	want, known := kinds[kind]
	switch {
	case kind == "":
		f.invalid("kind", "must be "+kubeletKind+" or "+podrunKind, header())
	case !known:
		f.invalid("kind", fmt.Sprintf("%q is not a kind of settings", kind), header())
	case version != want:
		f.kind = kind
		f.invalid("apiVersion", "must be "+want, header())
	}
	if len(f.problems) > 0 {
		return false
	}
	f.kind = kind
	delete(fields, "kind")
	delete(fields, "apiVersion")
	return true
}

func header() string {
	return fmt.Sprintf("begin each document with apiVersion: %s and kind: %s, or apiVersion: %s and kind: %s",
		kinds[kubeletKind], kubeletKind, kinds[podrunKind], podrunKind)
}

// fill decodes the fields into a struct; into is a pointer to the struct. It decodes each field on its own, in order
// to report every invalid field.
func (f *file) fill(into any, fields map[string]json.RawMessage) {
	targets := map[string]reflect.Value{}
	value := reflect.ValueOf(into).Elem()
	strict := f.kind == podrunKind
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		targets[name] = value.Field(i)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		target, known := targets[name]
		if !known || name == "" {
			f.unknown(name, strict)
			continue
		}
		if holdsQuantities(target.Type()) && resource.JSONExceedsLimits(fields[name]) {
			f.invalid(name, "it contains a quantity "+resource.ErrQuantityLimits.Error(), "use a shorter form, such as 128Mi or 500m")
			continue
		}
		loose, err := kjson.UnmarshalStrict(fields[name], target.Addr().Interface())
		if err != nil {
			f.invalid(name, typeMessage(err), "")
			continue
		}
		for _, e := range loose {
			var fieldErr kjson.FieldError
			if errors.As(e, &fieldErr) {
				f.unknown(name+"."+fieldErr.FieldPath(), strict)
			}
		}
		if !strict && !used[name] {
			f.add(name, ReasonUnused, "podrun does not use this field of the kubelet", "", true)
		}
	}
}

// holdsQuantities reports whether a field's type contains quantities, which Kubernetes' parser decodes.
func holdsQuantities(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsQuantities(t.Elem())
	case reflect.Struct:
		if t == quantityType {
			return true
		}
		for i := range t.NumField() {
			if holdsQuantities(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

var quantityType = reflect.TypeFor[apiresource.Quantity]()

// unknown reports an unknown field.
func (f *file) unknown(field string, strict bool) {
	if strict {
		f.add(field, "FieldUnknown", "unknown field", "", false)
		return
	}
	f.add(field, "FieldUnknown", "unknown field, ignored", "", true)
}

// typeMessage describes a value of the wrong type. It does not use the names of Go's types.
func typeMessage(err error) string {
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		return fmt.Sprintf("%s is not a valid %s", typeErr.Value, typeName(typeErr.Type))
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// typeName returns the YAML name of a Go type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "mapping"
	}
	return t.String()
}

// used has the fields that merge reads.
var used = map[string]bool{
	"podLogsDir": true, "registryPullQPS": true, "registryBurst": true, "clusterDomain": true, "clusterDNS": true, "podCIDR": true,
	"cgroupRoot": true, "cgroupsPerQOS": true, "cgroupDriver": true, "runtimeRequestTimeout": true, "maxPods": true,
	"podPidsLimit": true, "resolvConf": true, "cpuCFSQuota": true, "cpuCFSQuotaPeriod": true,
	"serializeImagePulls": true, "maxParallelImagePulls": true, "evictionHard": true, "mergeDefaultEvictionSettings": true,
	"evictionSoft": true, "evictionSoftGracePeriod": true, "evictionMinimumReclaim": true,
	"evictionPressureTransitionPeriod": true, "evictionMaxPodGracePeriod": true,
	"imageGCHighThresholdPercent": true, "imageGCLowThresholdPercent": true, "imageMinimumGCAge": true, "imageMaximumGCAge": true,
	"shutdownGracePeriod": true, "shutdownGracePeriodCriticalPods": true, "shutdownGracePeriodByPodPriority": true,
	"featureGates": true, "containerLogMaxSize": true, "containerLogMaxFiles": true, "containerLogMaxWorkers": true,
	"containerLogMonitorInterval": true, "crashLoopBackOff": true, "systemReserved": true, "memorySwap": true,
	"kubeReserved": true, "allowedUnsafeSysctls": true, "seccompDefault": true, "registerWithTaints": true,
	"containerRuntimeEndpoint": true, "imageServiceEndpoint": true,
	"imagePullCredentialsVerificationPolicy": true, "preloadedImagesVerificationAllowlist": true,
}
