package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/podrun/podrun/internal/problem"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// document is one document of a source.
type document struct {
	file   string
	offset int    // number of lines of the file before the document's text
	first  int    // 1-based line of its first content
	text   []byte // YAML or JSON
	// the document as JSON; if text is JSON, it is set from the beginning
	json []byte

	root   *yaml.Node // see tree
	parsed bool
}

// item is one object of a document: the document itself or an entry of a list.
type item struct {
	doc    *document
	prefix string // "items[2]." for an entry of a list, otherwise ""
	raw    []byte // the object as JSON
	// maps the beginnings of a pod's field paths to those in the file; see field
	rename [][2]string
}

// toJSON converts the document. twice lists the keys that occur twice in a mapping. The last
// occurrence applies. Lines in syntax errors are lines of the file.
func (d *document) toJSON() (out []byte, twice []duplicate, syntax problem.List) {
	if d.json != nil {
		return d.json, nil, nil
	}
	out, strict := sigsyaml.YAMLToJSONStrict(d.text)
	if strict == nil {
		return out, nil, d.trailing()
	}
	if !strings.HasPrefix(strict.Error(), unmarshalErrors) {
		// Parsing the document again would fail, too.
		return nil, nil, d.syntaxErrors(strict)
	}
	out, err := sigsyaml.YAMLToJSON(d.text)
	if err != nil {
		return nil, nil, d.syntaxErrors(err)
	}
	if root := d.tree(); root != nil {
		twice = duplicates(root, "")
		if len(twice) == 0 && hasMerge(root) {
			// The library's strict mode refuses keys that replace merged ones. kubectl and the kubelet do
			// not use that mode.
			return out, nil, d.trailing()
		}
	}
	if len(twice) == 0 {
		return nil, nil, d.syntaxErrors(strict)
	}
	return out, twice, d.trailing()
}

// trailing reports content after a flow mapping ("{...}") that belongs to no document. The
// library that converts the document would silently ignore such content. After anything other
// than a flow mapping, the library returns an error.
func (d *document) trailing() problem.List {
	if first := documentStart(d.text); first < 0 || d.text[first] != '{' && d.text[first] != '[' {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(d.text))
	var root, more yaml.Node
	if dec.Decode(&root) != nil {
		// The library for trees cannot parse the document, so podrun cannot detect trailing content.
		return nil
	}
	err := dec.Decode(&more)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		err = errors.New("unexpected content after the object")
	}
	out := d.syntaxErrors(err)
	for i := range out {
		out[i].Hint = "separate documents by a line of ---"
	}
	return out
}

// unmarshalErrors is the beginning of an error of decoding; syntax errors begin with other
// words.
const unmarshalErrors = "yaml: unmarshal errors:\n"

var (
	lineInMessage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`) })
	// parserError matches the errors of the library's parser. Unlike the library's scanner, the
	// parser counts lines from 0.
	parserError = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or)`)
	})
)

// syntaxErrors converts an error of the YAML library to problems. The library counts lines from
// the beginning of the document. If the document begins like JSON, syntaxErrors returns the JSON
// error, because it is more specific.
func (d *document) syntaxErrors(err error) problem.List {
	if p, ok := d.jsonSyntax(); ok {
		return problem.List{p}
	}
	text := strings.TrimPrefix(err.Error(), unmarshalErrors)
	var out problem.List
	for line := range strings.SplitSeq(text, "\n") {
		p := problem.Problem{File: d.file, Line: d.first, Reason: "InvalidYAML",
			Message: "not valid YAML: " + strings.TrimPrefix(strings.TrimSpace(line), "yaml: ")}
		if m := lineInMessage().FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				p.Line = d.offset + n
				p.Message = "not valid YAML: " + m[2]
			}
			if parserError().MatchString(m[2]) {
				p.Line++
			}
		}
		p.Hint = syntaxHint(p.Message)
		out = append(out, p)
	}
	return out
}

// jsonSyntax returns the syntax error of a document that begins like JSON, with a brace and a quoted name.
func (d *document) jsonSyntax() (problem.Problem, bool) {
	trimmed := bytes.TrimSpace(d.text)
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return problem.Problem{}, false
	}
	if rest := bytes.TrimSpace(trimmed[1:]); len(rest) == 0 || rest[0] != '"' {
		return problem.Problem{}, false
	}
	var any json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(d.text, &any); !errors.As(err, &syntax) {
		return problem.Problem{}, false
	}
	line := d.offset + 1 + bytes.Count(d.text[:min(int(syntax.Offset), len(d.text))], newline)
	return problem.Problem{File: d.file, Line: line, Reason: "InvalidYAML",
		Message: "not valid JSON: " + syntax.Error(), Hint: jsonHint(syntax)}, true
}

// jsonHint returns a hint about the usual cause of an error of the JSON decoder.
func jsonHint(err *json.SyntaxError) string {
	if strings.Contains(err.Error(), "unexpected end") {
		return "close all brackets and quotes; the file may be truncated"
	}
	return "check the commas, quotes and brackets of this line and the line before it"
}

// syntaxHint returns a hint about the usual cause of an error of the YAML library.
func syntaxHint(message string) string {
	switch {
	case strings.Contains(message, "cannot start any token"), strings.Contains(message, "tab character"):
		return "indent with spaces, not tabs; quote a value that begins with %, @ or a backquote"
	case strings.Contains(message, "invalid map key"):
		return "quote values such as {{ name }}, or render the template first: 'helm template CHART | podrun apply -'"
	case strings.Contains(message, "mapping values are not allowed"):
		return "quote a value that has a colon and a space in it, and check the indentation"
	case strings.Contains(message, "did not find expected"), strings.Contains(message, "could not find expected"):
		return "check the indentation, quotes and brackets of this line and the line before it"
	case strings.Contains(message, "excessive aliasing"), strings.Contains(message, "max depth"):
		return "write the document without so many aliases or levels"
	}
	return ""
}

// tree returns the document's node tree. Only problems require it. It returns nil if the
// library cannot parse the document.
func (d *document) tree() *yaml.Node {
	if d.parsed {
		return d.root
	}
	d.parsed = true
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err == nil && len(root.Content) > 0 {
		d.root = root.Content[0]
	}
	return d.root
}

// line returns the 1-based line of a field of the item. If the file does not contain the field,
// it is the line of the nearest parent in the file.
func (i item) line(field string) int {
	path := i.prefix + field
	if path == "" {
		return i.doc.first
	}
	root := i.doc.tree()
	if root == nil {
		return i.doc.first
	}
	if n := find(root, segments(path)); n > 0 {
		return i.doc.offset + n
	}
	return i.doc.first
}

// field converts the path of a pod's field to the path in the file.
func (i item) field(path string) string {
	for _, r := range i.rename {
		if rest, ok := strings.CutPrefix(path, r[0]); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return r[1] + rest
		}
	}
	return path
}

// problem returns a problem of this item with the line of the field.
func (i item) problem(object, field, reason, message string) problem.Problem {
	return problem.Problem{File: i.doc.file, Line: i.line(field), Object: object, Field: field, Reason: reason, Message: message}
}
