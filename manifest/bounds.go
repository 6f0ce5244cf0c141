package manifest

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/problem"
)

// What podrun takes. A manifest that an API server would store is far below all
// of them; together they keep any input within seconds and a few hundred
// megabytes, whether it is taken or refused.
const (
	// maxDocument is the size of one document, and of one object as JSON, in
	// bytes: that of a request to an API server (MaxRequestBodyBytes).
	maxDocument = 3 << 20
	// maxDocuments and maxAllValues are those of all that a command reads.
	maxDocuments = 10000
	maxAllValues = 1000000
	// maxValues are the values of one document, keys included; maxObjectValues
	// those of one object in it.
	maxValues       = 250000
	maxObjectValues = 50000
	// maxDepth is how deep values may be nested. The API's own types go to 20.
	maxDepth = 100
	// maxListDepth bounds lists within lists.
	maxListDepth = 4
	// maxProblems limits the list to a readable length.
	maxProblems = 1000
	// maxPods are those of one command; a kubelet runs 110 (maxPods).
	maxPods = 1000
	// maxContainers are those of one pod, of all kinds, maxAllContainers those of
	// one command.
	maxContainers    = 1000
	maxAllContainers = 2000
	// maxClaims are the PersistentVolumeClaims, and as many PersistentVolumes, of
	// one command: each claim looks at each volume.
	maxClaims = 1000
)

// tooLarge is the problem of a document that is over a limit.
func (d *document) tooLarge(format string, args ...any) problem.Problem {
	return problem.Problem{File: d.file, Line: d.first, Reason: "TooLarge", Message: fmt.Sprintf(format, args...),
		Hint: "split it into several objects"}
}

// textBounds refuses a document before it is parsed.
func (d *document) textBounds() problem.List {
	switch {
	case len(d.text) > maxDocument:
		p := d.tooLarge("the document is larger than %d MiB", maxDocument>>20)
		p.Hint = "separate its objects by lines of ---"
		return problem.List{p}
	case d.json == nil && weighYAML(d.text, maxValues) > maxValues:
		return problem.List{d.tooLarge("the document has more than %d values", maxValues)}
	case d.json == nil:
		return d.aliasBounds()
	}
	return nil
}

// jsonBounds refuses a document by its JSON, where aliases have been replaced.
// It returns how many values there are.
func (d *document) jsonBounds(raw []byte) (values int, refused *problem.Problem) {
	values, depth := weighJSON(raw)
	var p problem.Problem
	switch {
	case len(raw) > 2*maxDocument: // characters may have been escaped
		p = d.tooLarge("the document is larger than %d MiB", maxDocument>>20)
	case values > maxValues:
		p = d.tooLarge("the document has more than %d values", maxValues)
	case depth > maxDepth:
		p = d.tooLarge("values are nested more than %d deep", maxDepth)
		p.Hint = ""
	default:
		return values, nil
	}
	return values, &p
}

// aliasMarks counts possible aliases: a star after a blank or an indicator, and before a
// name. It does not use a regular expression, which takes 20 times as long, because it
// runs for every document.
func aliasMarks(text []byte) int {
	marks := 0
	for i := 1; i+1 < len(text); i++ {
		if text[i] != '*' || !strings.ContainsRune(" \t\n\v\f\r,[{:-", rune(text[i-1])) {
			continue
		}
		if next := text[i+1]; isDigit(next) || next == '_' || next == '-' || 'a' <= next|0x20 && next|0x20 <= 'z' {
			marks++
		}
	}
	return marks
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// aliasBounds refuses a document that would exceed the limits after the replacement of
// each alias by its content. The library that converts counts the nodes of aliases, but
// not their bytes.
func (d *document) aliasBounds() problem.List {
	marks := aliasMarks(d.text)
	if marks == 0 || marks*len(d.text) <= maxDocument {
		return nil // none, or all of them together could not
	}
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil {
		return d.syntaxErrors(err)
	}
	w := weigher{done: map[*yaml.Node]weight{}}
	if total := w.of(&root); total.bytes <= maxDocument && total.values <= maxValues {
		return nil
	}
	p := d.tooLarge("its aliases make it larger than %d MiB, or give it more than %d values", maxDocument>>20, maxValues)
	p.Hint = "write the document without so many aliases"
	return problem.List{p}
}

// weight is the size of a node with its aliases replaced.
type weight struct{ bytes, values int }

// weigher weighs nodes, each anchor once.
type weigher struct{ done map[*yaml.Node]weight }

func (w *weigher) of(n *yaml.Node) weight {
	if n.Kind == yaml.AliasNode {
		return w.of(n.Alias)
	}
	if sum, ok := w.done[n]; ok {
		return sum
	}
	if n.Anchor != "" {
		w.done[n] = weight{} // one that contains itself is refused by the converter
	}
	sum := weight{bytes: len(n.Value) + 1, values: 1}
	for _, c := range n.Content {
		more := w.of(c)
		// Each sum is cut, so that none overflows.
		sum.bytes = min(sum.bytes+more.bytes, 2*maxDocument)
		sum.values = min(sum.values+more.values, 2*maxValues)
	}
	if n.Anchor != "" {
		w.done[n] = sum
	}
	return sum
}

// longNumberDigits is how many digits a number has that may be beyond the bounds.
const longNumberDigits = 40

// hasLongNumber reports whether the text may contain a quantity beyond the limits: an
// exponent of two digits, or longNumberDigits digits and points in a row. It uses no
// regular expression, like aliasMarks.
func hasLongNumber(raw []byte) bool {
	run := 0
	for i, c := range raw {
		if isDigit(c) || c == '.' {
			if run++; run >= longNumberDigits {
				return true
			}
			continue
		}
		if run > 0 && (c == 'e' || c == 'E') {
			digits := i + 1
			if digits < len(raw) && (raw[digits] == '+' || raw[digits] == '-') {
				digits++
			}
			if digits+1 < len(raw) && isDigit(raw[digits]) && isDigit(raw[digits+1]) {
				return true
			}
		}
		run = 0
	}
	return false
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// quantityBounds reports the quantities of an object that must not be parsed.
func quantityBounds(raw []byte, into any) []typeError {
	if !hasLongNumber(raw) {
		return nil
	}
	var out []typeError
	for _, e := range typeErrors(reflect.TypeOf(into).Elem(), raw, "") {
		if e.bounds {
			out = append(out, e)
		}
	}
	return out
}
