// Package fields checks the claims of docs/pod-fields.md about every field of a Pod. It derives
// the list of fields from the API's Go types, and tests each claim.
package fields

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// whole contains the structs that are a single value in a manifest.
var whole = []reflect.Type{
	reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.Time](),
	reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[metav1.LabelSelector](),
}

// leaf is a field with a value, such as spec.containers[].env[].name.
type leaf struct {
	path string
	of   reflect.Type
}

// leaves lists every field of a Pod that has a value, except the fields of its status, which
// users do not write.
func leaves() []leaf {
	var out []leaf
	walk("metadata", reflect.TypeFor[metav1.ObjectMeta](), &out)
	walk("spec", reflect.TypeFor[corev1.PodSpec](), &out)
	return out
}

func walk(path string, t reflect.Type, out *[]leaf) {
	switch t.Kind() {
	case reflect.Pointer:
		walk(path, t.Elem(), out)
	case reflect.Slice:
		walk(path+"[]", t.Elem(), out)
	case reflect.Struct:
		if slices.Contains(whole, t) {
			*out = append(*out, leaf{path, t})
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
			case name != "":
				walk(path+"."+name, f.Type, out)
			default:
				walk(path, f.Type, out) // the field is inlined
			}
		}
	default:
		*out = append(*out, leaf{path, t})
	}
}

// below reports whether a field equals another one or is a part of it.
func below(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
