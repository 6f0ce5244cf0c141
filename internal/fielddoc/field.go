package fielddoc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Field is a field of a kind. If Name is empty, the Field represents the kind itself.
type Field struct {
	Name     string
	Type     string // as kubectl prints it: string, []Container, map[string]Quantity
	Doc      string // documentation of the field
	TypeDoc  string // documentation of the field's type; "" if the type has none
	Required bool

	kind *Kind
	path string // path from the kind, with [] after lists, as in docs/pod-fields.md; "" for the kind
	of   reflect.Type
}

// documented is an API type with documentation. SwaggerDoc maps field names to texts; the text
// for "" is that of the type itself.
type documented interface{ SwaggerDoc() map[string]string }

// scalars contains the structs that the API represents as a single value, and maps each of them to
// the type that kubectl prints.
var scalars = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  "Quantity",
	reflect.TypeFor[intstr.IntOrString](): "IntOrString",
	reflect.TypeFor[metav1.Time]():        "string",
	reflect.TypeFor[metav1.MicroTime]():   "string",
	reflect.TypeFor[metav1.Duration]():    "string",
	reflect.TypeFor[metav1.FieldsV1]():    "FieldsV1",
	reflect.TypeFor[json.RawMessage]():    "Object",
}

// Root returns a kind as a field.
func Root(k *Kind) Field {
	return Field{kind: k, of: k.of, Type: k.Name, TypeDoc: docs(k.of)[""]}
}

// UnknownError reports that a field does not exist.
type UnknownError struct {
	Parent string // path of the parent, such as pod.spec
	// Field is the name of the unknown field.
	Field string
	// Known contains the fields of the parent. It is nil if the parent has no fields.
	Known []string
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("%s has no fields: %q does not exist", e.Parent, e.Field)
	}
	return fmt.Sprintf("%s has no field %q", e.Parent, e.Field)
}

// Lookup finds a field by its path below a kind, such as spec.containers.image. The path may
// contain list indexes, which Lookup ignores. The error is an *UnknownError.
func Lookup(k *Kind, path []string) (Field, error) {
	f, parent := Root(k), strings.ToLower(k.Name)
	for _, name := range path {
		name, _, _ = strings.Cut(name, "[")
		fields := f.Fields()
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			e := &UnknownError{Parent: parent, Field: name}
			for _, known := range fields {
				e.Known = append(e.Known, known.Name)
			}
			return Field{}, e
		}
		f, parent = fields[i], parent+"."+name
	}
	return f, nil
}

// Fields returns the fields inside a field, sorted by name. It returns nil if the field is a
// value.
func (f Field) Fields() []Field {
	t := element(f.of)
	if t.Kind() != reflect.Struct || scalars[t] != "" {
		return nil
	}
	var out []Field
	f.addFields(t, &out)
	slices.SortFunc(out, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (f Field) addFields(t reflect.Type, out *[]Field) {
	texts := docs(t)
	for i := range t.NumField() {
		of := t.Field(i)
		name, options, _ := strings.Cut(of.Tag.Get("json"), ",")
		if name == "-" || !of.IsExported() {
			continue
		}
		if name == "" { // The struct is inlined.
			f.addFields(of.Type, out)
			continue
		}
		one := Field{Name: name, Type: typeName(of.Type), Doc: texts[name], TypeDoc: docs(element(of.Type))[""],
			Required: isRequired(t, name, options), kind: f.kind, of: of.Type, path: strings.TrimPrefix(f.path+"."+name, ".")}
		for e := of.Type; ; e = e.Elem() {
			if e.Kind() == reflect.Slice && e.Elem().Kind() != reflect.Uint8 {
				one.path += "[]"
			}
			if e.Kind() != reflect.Slice && e.Kind() != reflect.Pointer {
				break
			}
		}
		*out = append(*out, one)
	}
}

// requiredByComment lists fields, as type.name, whose tags in the API contradict their comments
// (+optional, +required).
var requiredByComment = map[string]bool{
	"GRPCAction.service": false, "ProjectedVolumeSource.sources": false, "TypedLocalObjectReference.apiGroup": false,
	"TypedObjectReference.apiGroup": false, "AzureFilePersistentVolumeSource.secretNamespace": false,
	"StatefulSetOrdinals.start": false, "StatefulSetSpec.serviceName": false, "StatefulSetStatus.availableReplicas": false,
	"PodFailurePolicyOnPodConditionsPattern.status": false, "PriorityClass.value": false, "CronJob.spec": true,
	"ContainerRestartRule.action": true, "ContainerRestartRuleOnExitCodes.operator": true, "PodCertificateProjection.keyType": true,
	"PodCertificateProjection.signerName": true, "ImageVolumeStatus.imageRef": true,
}

func isRequired(t reflect.Type, name, options string) bool {
	if required, ok := requiredByComment[t.Name()+"."+name]; ok {
		return required
	}
	return !strings.Contains(options, "omit")
}

// docs returns the documentation of a type, or nil if it has none.
func docs(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(documented); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// element returns the element type of a list, map or pointer. It returns any other type
// unchanged.
func element(t reflect.Type) reflect.Type {
	for scalars[t] == "" && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
		t = t.Elem()
	}
	return t
}

// typeName returns the name of a type in the form that kubectl prints
// (k8s.io/kubectl/pkg/explain/v2, typeGuess).
func typeName(t reflect.Type) string {
	if name, ok := scalars[t]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "[]" + typeName(t.Elem())
	case reflect.Map:
		return "map[string]" + typeName(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Struct:
		return t.Name()
	}
	return "integer"
}
