package manifest

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// segments splits a field path such as spec.containers[0].resources.limits[a.b/c] into
// names, keys and indexes.
func segments(path string) []string {
	var out []string
	for path != "" {
		switch i := strings.IndexAny(path, ".["); {
		case path[0] == '[':
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return append(out, path[1:])
			}
			out, path = append(out, path[1:end]), path[end+1:]
		case i < 0:
			return append(out, path)
		case i == 0:
			path = path[1:]
		default:
			out, path = append(out, path[:i]), path[i:]
		}
	}
	return out
}

// find follows a path in a node tree, and returns the line of the deepest node on the path that
// exists. The line counts from the beginning of the document's text. If not even the first
// segment exists, find returns 0. A key in a path may itself contain dots, so find joins
// segments until a key matches.
func find(node *yaml.Node, path []string) int {
	line := 0
	for len(path) > 0 {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		next, at, used := step(node, path)
		if next == nil {
			return line
		}
		node, line, path = next, at, path[used:]
	}
	return line
}

// step returns the child of node that the first segments of path identify, the line at which the
// child begins, and how many segments these are.
func step(node *yaml.Node, path []string) (child *yaml.Node, line, used int) {
	switch node.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line, 1
		}
	case yaml.MappingNode:
		key := ""
		for n, s := range path {
			key += s
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == key {
					return node.Content[i+1], node.Content[i].Line, n + 1
				}
			}
			key += "."
		}
	}
	return nil, 0, 0
}

// duplicate is a key that occurs twice in a mapping.
type duplicate struct {
	path string
	// line of the second occurrence, counted from the beginning of the document's text
	line  int
	first int // line of the first occurrence
	// The second occurrence is a merge key (<<), which replaces the value.
	merged bool
}

// isMerge reports whether a key merges other mappings.
func isMerge(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" }

// hasMerge reports whether a tree contains a merge key.
func hasMerge(node *yaml.Node) bool {
	if node.Kind == yaml.MappingNode {
		for i := 0; i < len(node.Content); i += 2 {
			if isMerge(node.Content[i]) {
				return true
			}
		}
	}
	return slices.ContainsFunc(node.Content, hasMerge)
}

// mergedKeys returns the keys that the value of a merge key adds to a mapping.
func mergedKeys(node *yaml.Node) (out []string) {
	switch node.Kind {
	case yaml.AliasNode:
		return mergedKeys(node.Alias)
	case yaml.SequenceNode:
		for _, n := range node.Content {
			out = append(out, mergedKeys(n)...)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if isMerge(node.Content[i]) {
				out = append(out, mergedKeys(node.Content[i+1])...)
			} else {
				out = append(out, node.Content[i].Value)
			}
		}
	}
	return out
}

// duplicates returns the duplicate keys in a tree. It does not follow aliases, because the tree
// also contains the content to which they refer. A key after a merge key replaces the merged one, and
// is no duplicate. A merge key after it replaces its value, in kubectl and the kubelet too, although YAML
// specifies otherwise.
func duplicates(node *yaml.Node, path string) []duplicate {
	var out []duplicate
	switch node.Kind {
	case yaml.SequenceNode:
		for i, c := range node.Content {
			out = append(out, duplicates(c, path+"["+strconv.Itoa(i)+"]")...)
		}
	case yaml.MappingNode:
		seen := make(map[string]int, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			if isMerge(key) {
				for _, name := range mergedKeys(node.Content[i+1]) {
					if first, ok := seen[name]; ok {
						out = append(out, duplicate{path: strings.TrimPrefix(path+"."+name, "."), line: first, first: key.Line, merged: true})
					}
				}
			} else if first, ok := seen[key.Value]; ok && key.Kind == yaml.ScalarNode {
				out = append(out, duplicate{path: at, line: key.Line, first: first})
			} else {
				seen[key.Value] = key.Line
			}
			out = append(out, duplicates(node.Content[i+1], at)...)
		}
	}
	return out
}
