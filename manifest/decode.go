package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"

	kjson "sigs.k8s.io/json"
)

// decode stores the decoded item in the value to which into points, and reports whether that
// succeeded. It fails if a value has the wrong type. If a field is unknown or duplicate, it reports
// that and does not fail, so that the object can still be validated.
func (l *loader) decode(it item, object string, into any) bool {
	if found := quantityBounds(it.raw, into); len(found) > 0 {
		l.problems = append(l.problems, it.typeErrors(object, found)...)
		return false
	}
	strict, err := kjson.UnmarshalStrict(it.raw, into)
	if err != nil {
		l.problems = append(l.problems, it.typeProblems(object, into, err)...)
		return false
	}
	if l.opts.Validate == Ignore {
		return true
	}
	for _, e := range strict {
		l.add(it.strictProblem(object, into, e, l.opts.Validate))
	}
	return true
}

// Decode decodes a YAML or JSON document that is not a manifest, and stores it in the value to
// which into points. It applies the limits for manifests.
func Decode(s input.Source, into any) error {
	doc := &document{file: s.Name, first: 1, text: s.Data}
	bad := doc.textBounds()
	var raw []byte
	if len(bad) == 0 {
		raw, _, bad = doc.toJSON()
	}
	if len(bad) > 0 {
		return errors.New(bad[0].String())
	}
	if _, p := doc.jsonBounds(raw); p != nil {
		return errors.New(p.String())
	}
	if found := quantityBounds(raw, into); len(found) > 0 {
		return fmt.Errorf("%s: %s: %s", s.Name, found[0].path, found[0].message)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// strictProblem returns the problem of an unknown or duplicate field.
func (i item) strictProblem(object string, into any, err error, mode Validate) problem.Problem {
	var fieldErr kjson.FieldError
	if !errors.As(err, &fieldErr) {
		return i.problem(object, "", "StrictDecoding", err.Error())
	}
	path := fieldErr.FieldPath()
	name := path[strings.LastIndexByte(path, '.')+1:]
	if strings.HasPrefix(err.Error(), "duplicate") {
		return mode.apply(i.problem(object, path, "FieldDuplicate", "duplicate field \""+name+"\""))
	}
	p := i.problem(object, path, "FieldUnknown", "unknown field \""+name+"\"")
	p.Hint = meant(reflect.TypeOf(into), segments(path))
	return mode.apply(p)
}

// meant returns the hint for an unknown field. The hint is a field with a very similar name. If
// there is none, it is the level at which a field with this name exists, or else a field with a
// less similar name. If there is none of these, it is "".
func meant(t reflect.Type, path []string) string {
	similar := similarField(t, path)
	if similar == "" || edits(strings.ToLower(similar), strings.ToLower(path[len(path)-1])) > 1 {
		if elsewhere := otherLevel(t, path); elsewhere != "" {
			return "did you mean " + elsewhere + "?"
		}
	}
	if similar != "" {
		return "did you mean \"" + similar + "\"?"
	}
	return ""
}

// apply converts a problem from strict decoding to a warning if the mode is Warn.
func (v Validate) apply(p problem.Problem) problem.Problem {
	p.Warning = v == Warn
	return p
}

// duplicateProblems returns the problems of the duplicate keys in a YAML document. In JSON, decode reports them.
func duplicateProblems(doc *document, twice []duplicate, mode Validate) (out problem.List) {
	if mode == Ignore {
		return nil
	}
	for _, d := range twice {
		if d.merged {
			out = append(out, problem.Problem{File: doc.file, Line: doc.offset + d.line, Field: d.path,
				Reason: "FieldDuplicate", Warning: true,
				Message: fmt.Sprintf("the merge key << of line %d replaces this value, as in kubectl", doc.offset+d.first),
				Hint:    "write the merge key before the keys that replace merged ones"})
			continue
		}
		out = append(out, mode.apply(problem.Problem{File: doc.file, Line: doc.offset + d.line, Field: d.path,
			Reason:  "FieldDuplicate",
			Message: "duplicate field \"" + d.path[strings.LastIndexByte(d.path, '.')+1:] + "\"" + firstAt(doc.offset+d.first),
			Hint:    "remove one of them"}))
	}
	return out
}

// joinedObjects reports objects in a document that lack a separator before them, as in the output of 'cat
// a.yaml b.yaml'. It finds them because each repeats apiVersion and kind.
func joinedObjects(doc *document, twice []duplicate) (out problem.List) {
	if !slices.ContainsFunc(twice, func(d duplicate) bool { return d.path == "kind" && !d.merged }) {
		return nil
	}
	for _, d := range twice {
		if d.path == "apiVersion" && !d.merged {
			out = append(out, problem.Problem{File: doc.file, Line: doc.offset + d.line, Field: d.path, Reason: "FieldDuplicate",
				Message: fmt.Sprintf("another object begins here, but no line --- separates it from the object of line %d", doc.offset+d.first),
				Hint:    "insert the line --- between them; if files were concatenated, pass each with -f instead"})
		}
	}
	return out
}

// typeProblems returns a problem for every value of a wrong type, with its path. It is needed because the
// decoder stops at the first one, and an error about a quantity contains no path.
func (i item) typeProblems(object string, into any, err error) problem.List {
	found := typeErrors(reflect.TypeOf(into).Elem(), i.raw, "")
	if len(found) == 0 {
		return problem.List{i.problem(object, "", "FieldValueTypeInvalid", strings.TrimPrefix(err.Error(), "json: "))}
	}
	return i.typeErrors(object, found)
}

func (i item) typeErrors(object string, found []typeError) (out problem.List) {
	for _, e := range found {
		p := i.problem(object, e.path, "FieldValueTypeInvalid", e.message)
		p.Hint = e.hint
		out = append(out, p)
	}
	return out
}

// header contains the fields that identify an object.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// readHeader reads the fields that identify an object. It ignores values of the wrong type,
// because the decoder reports them.
func readHeader(raw []byte) (header, bool) {
	if kindOf(raw) != "an object" {
		return header{}, false
	}
	var h header
	var fields, meta map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return header{}, false
	}
	text := func(raw json.RawMessage) string {
		var s string
		if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	}
	h.APIVersion = text(fields["apiVersion"])
	h.Kind = text(fields["kind"])
	if kindOf(fields["metadata"]) == "an object" && json.Unmarshal(fields["metadata"], &meta) == nil {
		h.Metadata.Name = text(meta["name"])
		h.Metadata.Namespace = text(meta["namespace"])
	}
	return h, true
}
