package manifest

import (
	"reflect"
	"strings"
)

// Limits of the search for a field at another level. They are needed because types are deeply
// nested, and an input may have thousands of unknown fields.
const (
	// number of levels below the struct at which a search begins
	levelDepth = 3
	levelTypes = 256 // number of structs that a search visits
)

// otherLevel returns where a field exists that the author put at the wrong level, for example
// "spec.containers[].image" for spec.image. It first searches the struct that should contain the field, and the
// structs below it. Then it searches each parent in the same way. It returns the first match, or "" if there is none.
// root is the type of the whole object.
func otherLevel(root reflect.Type, path []string) string {
	for up := 1; up <= len(path); up++ {
		at, ok := descend(root, path[:len(path)-up])
		if !ok || at.Kind() != reflect.Struct {
			continue
		}
		if found := below(at, path[len(path)-1]); found != "" {
			return strings.TrimPrefix(joined(path[:len(path)-up])+"."+found, ".")
		}
	}
	return ""
}

// descend returns the type at path. The segments of path are fields, keys and indexes.
func descend(t reflect.Type, path []string) (reflect.Type, bool) {
	for {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if len(path) == 0 {
			return t, true
		}
		switch t.Kind() {
		case reflect.Slice, reflect.Map:
			t, path = t.Elem(), path[1:]
		case reflect.Struct:
			next := reflect.Type(nil)
			for _, f := range jsonFields(t) {
				if f.name == path[0] {
					next = f.typ
				}
			}
			if next == nil {
				return nil, false
			}
			t, path = next, path[1:]
		default:
			return nil, false
		}
	}
}

// level is a struct and the path to it, such as "containers[].".
type level struct {
	path string
	of   reflect.Type
}

// below returns the path to the nearest field of this name in a struct or in the structs below
// it. It returns "" if there is none.
func below(t reflect.Type, name string) string {
	next, seen := []level{{"", t}}, map[reflect.Type]bool{t: true}
	for depth := 0; depth <= levelDepth && len(next) > 0; depth++ {
		now := next
		next = nil
		for _, l := range now {
			for _, f := range jsonFields(l.of) {
				if f.name == name {
					return l.path + name
				}
			}
		}
		for _, l := range now {
			for _, f := range likelyFirst(jsonFields(l.of)) {
				inner, brackets := f.typ, ""
				for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
					if inner.Kind() == reflect.Slice {
						brackets = "[]"
					}
					inner = inner.Elem()
				}
				if inner.Kind() == reflect.Struct && !reflect.PointerTo(inner).Implements(unmarshaler) && !seen[inner] && len(seen) < levelTypes {
					seen[inner] = true
					next = append(next, level{l.path + f.name + brackets + ".", inner})
				}
			}
		}
	}
	return ""
}

// likelyFirst moves containers, security contexts, templates and specs to the front, because
// other fields may contain fields of the same name (such as "image"). It omits fields that
// users do not write.
func likelyFirst(fields []jsonField) []jsonField {
	var first, rest []jsonField
	for _, f := range fields {
		switch f.name {
		case "status", "managedFields", "ownerReferences":
		case "containers", "securityContext", "template", "spec":
			first = append(first, f)
		default:
			rest = append(rest, f)
		}
	}
	return append(first, rest...)
}

// joined does the reverse of segments. It writes numbers as indexes in brackets.
func joined(path []string) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s != "" && strings.Trim(s, "0123456789") == "":
			b.WriteString("[" + s + "]")
		case b.Len() > 0:
			b.WriteString("." + s)
		default:
			b.WriteString(s)
		}
	}
	return b.String()
}
