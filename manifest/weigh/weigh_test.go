package weigh

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// nodes counts the nodes of a tree.
func nodes(n *yaml.Node) int {
	sum := 1
	for _, c := range n.Content {
		sum += nodes(c)
	}
	return sum
}

// A text with many characters that could be structure must have few nodes.
func TestWeighText(t *testing.T) {
	csv := strings.Repeat("1,[2],{3}: - ", 1000)
	for name, text := range map[string]string{
		"block scalar":  "a:\n  b: |\n    " + strings.Repeat(csv+"\n\n    ", 3) + "\n  c: d\n",
		"indented more": "a: |2\n   " + csv + "\n  " + csv + "\nb: c\n",
		"folded":        "- - a: >-  # comment\n       " + csv + "\n    b: c\n",
		"double quotes": "a: \"" + csv + "\\\"" + csv + "\n\n  " + csv + "\"\nb: c\n",
		"single quotes": "a: '" + csv + "''" + csv + "'\n",
		"plain":         "a: x" + strings.ReplaceAll(csv, ": ", ":") + "\n  x" + strings.ReplaceAll(csv, ": ", ":") + "\nb: c\n",
		"comment":       "a: b # " + csv + "\n# " + csv + "\n",
		"JSON":          `{"a": "` + csv + `", "b": ["` + csv + `"]}`,
		"anchors":       "a: &x |\n  " + csv + "\nb: !!str \"" + csv + "\"\nc: *x\n",
		"complex key":   "? |\n  " + csv + "\n: \"" + csv + "\"\n",
	} {
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(text), &root); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := scanner{text: []byte(text), most: 1 << 30, indents: []int{-1}}
		for s.next() {
		}
		if want := nodes(&root) - 1; s.nodes < want || s.nodes > 3*want+3 {
			t.Errorf("%s: %d nodes, has %d", name, s.nodes, want)
		}
	}
}

// FuzzWeigh checks that the count is never less than the number of nodes that the libraries
// create.
func FuzzWeigh(f *testing.F) {
	for _, seed := range []string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: app\n    image: app:1\n    args: [a, 'b c']\n", `{"a": {"b": [1, "c"]}}`,
		"a: |\n  x\n b", "- - - a: b\n    c: >2\n     d\n", "{a, b, ? c : d, [e: f]}", "? a\n: b\n? - c\n", "&a !b c: *a\n", "a: \"\\\n \\\"\"\n", "-\n-\n- \n",
		"'a\n  b': c", "a: b\n - c\n", "{?'a, b,c'", "a: b\u0085c: d", "%YAML 1.1\n--- [a]\n", "\ufeffa: b", "a:\n- |\n b\n- |1\n  c", "[a, 'b', \"c\"]: d", "ü: - \"\n", "{a: b,\n#c\n'd': e}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := scanner{text: []byte(text), most: 1 << 30, indents: []int{-1}}
		for s.next() {
		}
		var root yaml.Node
		if yaml.Unmarshal([]byte(text), &root) == nil && len(root.Content) > 0 && single(text) {
			if want := nodes(&root) - 1; s.nodes < want || YAML([]byte(text), 1<<30) < want {
				t.Errorf("%d and %d nodes, has %d\n%q", s.nodes, YAML([]byte(text), 1<<30), want, text)
			}
		}
		out, err := sigsyaml.YAMLToJSON([]byte(text))
		if err != nil || !json.Valid(out) {
			return
		}
		var any any
		if err := json.Unmarshal(out, &any); err != nil {
			return
		}
		if values, _ := JSON(out); values < jsonValues(any) {
			t.Errorf("%d values of JSON, has %d\n%s", values, jsonValues(any), out)
		}
	})
}

// single reports whether a text is one document, because the scanner gets one document at a time.
func single(text string) bool {
	d := yaml.NewDecoder(strings.NewReader(text))
	var first, second yaml.Node
	return d.Decode(&first) == nil && d.Decode(&second) == io.EOF
}

func jsonValues(v any) int {
	sum := 1
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			sum += 1 + jsonValues(e)
		}
	case []any:
		for _, e := range v {
			sum += jsonValues(e)
		}
	}
	return sum
}
