package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/resource"
)

// typeError describes a value that cannot be decoded into its field.
type typeError struct {
	path, message, hint string
	// the value is a quantity that exceeds the limits and was not parsed
	bounds bool
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// typeErrors returns an error for every value in the JSON that does not fit its field in the Go
// type. It never quotes a value, because the value may be a secret.
func typeErrors(t reflect.Type, raw json.RawMessage, path string) []typeError {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return unmarshalError(t, raw, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return structErrors(t, raw, path)
	case reflect.Map:
		var entries map[string]json.RawMessage
		if json.Unmarshal(raw, &entries) != nil {
			return []typeError{mismatch("a map", raw, path)}
		}
		var out []typeError
		for key, value := range entries {
			out = append(out, typeErrors(t.Elem(), value, path+"["+key+"]")...)
		}
		slices.SortFunc(out, func(a, b typeError) int { return strings.Compare(a.path, b.path) })
		return out
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return sliceErrors(t, raw, path)
		}
	}
	return scalarError(t, raw, path)
}

func structErrors(t reflect.Type, raw json.RawMessage, path string) []typeError {
	var entries map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return []typeError{mismatch("a map", raw, path)}
	}
	var out []typeError
	for _, f := range jsonFields(t) {
		if value, ok := entries[f.name]; ok {
			out = append(out, typeErrors(f.typ, value, strings.TrimPrefix(path+"."+f.name, "."))...)
		}
	}
	return out
}

func sliceErrors(t reflect.Type, raw json.RawMessage, path string) []typeError {
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		e := mismatch("a list", raw, path)
		e.hint = "begin each entry with \"- \""
		return []typeError{e}
	}
	var out []typeError
	for i, value := range entries {
		out = append(out, typeErrors(t.Elem(), value, fmt.Sprintf("%s[%d]", path, i))...)
	}
	return out
}

// unmarshalError tries to decode a value whose type decodes itself, such as a quantity.
func unmarshalError(t reflect.Type, raw json.RawMessage, path string) []typeError {
	if t == quantityType && resource.QuantityExceedsLimits(strings.Trim(string(raw), `"`)) {
		return []typeError{{path: path, bounds: true, hint: "use a shorter form, such as 128Mi or 500m",
			message: "not a valid quantity: " + resource.ErrQuantityLimits.Error()}}
	}
	err := reflect.New(t).Interface().(json.Unmarshaler).UnmarshalJSON(raw)
	if err == nil {
		return nil
	}
	name := strings.ToLower(t.Name())
	if _, isType := err.(*json.UnmarshalTypeError); isType {
		return []typeError{{path: path, message: fmt.Sprintf("%s is not a valid %s", kindOf(raw), name)}}
	}
	e := typeError{path: path, message: fmt.Sprintf("not a valid %s: %s", name, strings.TrimPrefix(err.Error(), "json: "))}
	if t == quantityType {
		e.hint = QuantityHint(string(raw))
	}
	return []typeError{e}
}

func scalarError(t reflect.Type, raw json.RawMessage, path string) []typeError {
	err := json.Unmarshal(raw, reflect.New(t).Interface())
	if err == nil {
		return nil
	}
	want := map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "base64 text"}[t.Kind()]
	if want == "" {
		want = "a number"
		if kindOf(raw) == "a number" {
			want = "a whole number that fits in " + t.Kind().String()
		}
	}
	e := mismatch(want, raw, path)
	switch {
	case t.Kind() == reflect.String && kindOf(raw) == "a number":
		e.hint = "quote the value"
	case t.Kind() == reflect.String && kindOf(raw) == "true or false":
		e.hint = "quote the value; YAML reads y, n, yes, no, on and off as true or false"
	case kindOf(raw) == "a string" && isUnquoted(t, raw):
		e.hint = "write the value without quotes"
	case want == "base64 text" && kindOf(raw) == "a string":
		e.message = "not valid base64"
		e.hint = "encode the value, or put the plain value into stringData"
	}
	return []typeError{e}
}

// isUnquoted reports whether a string is a value of type t if it is written in YAML without quotes.
func isUnquoted(t reflect.Type, raw json.RawMessage) bool {
	const longest = 64 // numbers in manifests are shorter
	var text string
	return len(raw) <= longest && json.Unmarshal(raw, &text) == nil && sigsyaml.Unmarshal([]byte(text), reflect.New(t).Interface()) == nil
}

func mismatch(want string, raw json.RawMessage, path string) typeError {
	return typeError{path: path, message: "must be " + want + ", not " + kindOf(raw)}
}

// kindOf returns the kind of a JSON value, for messages.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// jsonField is a field of a struct with its JSON name.
type jsonField struct {
	name string
	typ  reflect.Type
}

// jsonFields returns the fields of a struct, including those of embedded structs.
func jsonFields(t reflect.Type) []jsonField {
	var out []jsonField
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			out = append(out, jsonFields(inner)...)
		case name != "":
			out = append(out, jsonField{name, f.Type})
		}
	}
	return out
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}
