package nodeconfig

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is one document of a YAML stream.
type document struct {
	// first is the first line of the document's text in the stream. Lines count from 1.
	first int
	text  []byte
}

// split splits a stream at its document markers, "---" and "...". It omits documents that have
// only blank lines, comments and directives. A line that begins with a marker is never content,
// not even inside a quoted or block scalar (YAML 1.2, 9.1.2).
func split(data []byte) []document {
	var out []document
	now := document{first: 1}
	end := func() {
		if hasContent(now.text) {
			out = append(out, now)
		}
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		rest, marker := cutMarker(line)
		if !marker {
			now.text = append(now.text, line...)
			continue
		}
		end()
		now = document{first: n, text: bytes.Clone(rest)}
	}
	end()
	return out
}

// cutMarker removes a document marker from the beginning of a line.
func cutMarker(line []byte) (rest []byte, marker bool) {
	if rest, marker = bytes.CutPrefix(line, []byte("---")); !marker {
		rest, marker = bytes.CutPrefix(line, []byte("..."))
	}
	if !marker || len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n") {
		return line, false
	}
	return rest, true
}

func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}

// place is the position of a field in a document.
type place struct {
	path string // maxPods, systemReserved[cpu], sources[0]
	// Lines of the document's text count from 1.
	line int
	// again is the line of an earlier field with the same path. It is 0 if there is none.
	again int
}

// The limits on the fields whose place podrun records. A real settings file has fewer fields. A field beyond the
// limits gets the place of its parent.
const (
	maxPlaces  = 10000
	placeDepth = 5
	maxKey     = 512 // bytes
)

// maxExpanded limits the size in bytes of a document after its aliases were expanded. A few lines
// of aliases can expand to any amount of text.
const maxExpanded = 4 * maxFile

// placesOf returns the places of the fields in the top levels of a document.
func placesOf(text []byte) ([]place, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if len(root.Content) == 0 {
		return nil, nil
	}
	if expanded(&root, map[*yaml.Node]int{}) > maxExpanded {
		return nil, fmt.Errorf("larger than %d MiB with its aliases expanded", maxExpanded>>20)
	}
	var out []place
	lines := map[string]int{}
	walk(root.Content[0], "", 0, func(path string, line int) bool {
		out = append(out, place{path: path, line: line, again: lines[path]})
		lines[path] = line
		return len(out) < maxPlaces
	})
	return out, nil
}

// expanded returns the size in bytes that a node has with its aliases expanded. The result is at
// most maxExpanded+1. done has the sizes of nodes with anchors. A node that contains itself
// counts as too large.
func expanded(node *yaml.Node, done map[*yaml.Node]int) int {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if size, ok := done[node]; ok {
		return size
	}
	if node.Anchor != "" {
		done[node] = maxExpanded + 1
	}
	// The size includes quotes and separators.
	size := len(node.Value) + 4
	for _, inner := range node.Content {
		size = min(size+expanded(inner, done), maxExpanded+1)
	}
	if node.Anchor != "" {
		done[node] = size
	}
	return size
}

// walk calls found for each field below a node, in the order of the text. It stops when found
// returns false. It does not follow aliases.
func walk(node *yaml.Node, path string, depth int, found func(path string, line int) bool) bool {
	if depth == placeDepth {
		return true
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if len(node.Content[i].Value) > maxKey {
				continue
			}
			key, at := node.Content[i], node.Content[i].Value
			if depth > 0 {
				at = path + "[" + key.Value + "]"
			}
			if !found(at, key.Line) || !walk(node.Content[i+1], at, depth+1, found) {
				return false
			}
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			if !found(at, item.Line) || !walk(item, at, depth+1, found) {
				return false
			}
		}
	}
	return true
}

// line returns the line of a field in the file. If the line was not recorded, it returns the
// line of the nearest recorded parent, or 0 if there is none.
func (f *file) line(field string) int {
	for field != "" {
		for _, p := range f.places {
			if p.path == field {
				return f.first + p.line - 1
			}
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 0
}
