package manifest

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/weigh"
)

// Limits of the input. A manifest that an API server would store is far below all of these
// limits. Together, they ensure that podrun handles any input within seconds and a few hundred
// megabytes, whether it accepts the input or refuses it.
const (
	// maxDocument is the maximum size, in bytes, of one document, and of one object as JSON. It is
	// the maximum size of a request to an API server (MaxRequestBodyBytes).
	maxDocument = 3 << 20
	// maxDocuments and maxAllValues are the limits for the whole input of a command.
	maxDocuments = 10000
	maxAllValues = 1000000
	// maxValues is the maximum number of values in one document; keys count as values.
	// maxObjectValues is the maximum number in one object.
	maxValues       = 250000
	maxObjectValues = 50000
	// maxDepth is the maximum depth of nested values. The API's own types have a depth of
	// 20.
	maxDepth = 100
	// maxListDepth is the maximum depth of nested lists of objects.
	maxListDepth = 4
	// maxProblems limits the list of problems to a length that a user can read.
	maxProblems = 1000
	// maxPods is the maximum number of pods per command; a kubelet's default is 110
	// (maxPods).
	maxPods = 1000
	// maxContainers is the maximum number of containers of one pod, of all kinds. maxAllContainers
	// is the maximum number in one command.
	maxContainers    = 1000
	maxAllContainers = 2000
	// maxClaims is the maximum number of PersistentVolumeClaims in one command, and also the
	// maximum number of PersistentVolumes. There is a limit because binding compares each claim
	// with each volume.
	maxClaims = 1000
)

// tooLarge returns the problem of a document that exceeds a limit.
func (d *document) tooLarge(format string, args ...any) problem.Problem {
	return problem.Problem{File: d.file, Line: d.first, Reason: "TooLarge", Message: fmt.Sprintf(format, args...),
		Hint: "split it into several objects"}
}

// textBounds refuses a document that exceeds a limit. It runs before the document is parsed.
func (d *document) textBounds() problem.List {
	switch {
	case len(d.text) > maxDocument:
		p := d.tooLarge("the document is larger than %d MiB", maxDocument>>20)
		p.Hint = "separate its objects by lines of ---"
		return problem.List{p}
	case d.json == nil && weigh.YAML(d.text, maxValues) > maxValues:
		return problem.List{d.tooLarge("the document has more than %d values", maxValues)}
	case d.json == nil:
		return d.aliasBounds()
	}
	return nil
}

// jsonBounds refuses a document whose JSON exceeds a limit when its aliases are replaced. It
// returns the number of values.
func (d *document) jsonBounds(raw []byte) (values int, refused *problem.Problem) {
	values, depth := weigh.JSON(raw)
	var p problem.Problem
	switch {
	// The limit is twice the size, because characters may have been escaped.
	case len(raw) > 2*maxDocument:
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

// aliasMarks counts possible aliases: each is a star after white space or an indicator, and before
// a name. It uses no regular expression, because it runs for every document, and a regular
// expression would take 20 times as long.
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

// aliasBounds refuses a document that would exceed the limits if its aliases were replaced by
// their content. It is needed because the library that converts the document counts the nodes of
// aliases, but not their bytes.
func (d *document) aliasBounds() problem.List {
	marks := aliasMarks(d.text)
	if marks == 0 || marks*len(d.text) <= maxDocument {
		// There are no aliases, or too few to exceed the limits.
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil {
		return d.syntaxErrors(err)
	}
	w := weigher{done: map[*yaml.Node]weight{}}
	if total := w.of(&root); total.bytes <= maxDocument && total.values <= maxValues {
		return nil
	}
	p := d.tooLarge("with its aliases expanded, the document is larger than %d MiB or has more than %d values", maxDocument>>20, maxValues)
	p.Hint = "write the document without so many aliases"
	return problem.List{p}
}

// weight is the size of a node in which aliases are replaced by their content.
type weight struct{ bytes, values int }

// weigher computes the weights of nodes. It visits each anchor once.
type weigher struct{ done map[*yaml.Node]weight }

func (w *weigher) of(n *yaml.Node) weight {
	if n.Kind == yaml.AliasNode {
		return w.of(n.Alias)
	}
	if sum, ok := w.done[n]; ok {
		return sum
	}
	if n.Anchor != "" {
		// The converter refuses an anchor that contains itself.
		w.done[n] = weight{}
	}
	sum := weight{bytes: len(n.Value) + 1, values: 1}
	for _, c := range n.Content {
		more := w.of(c)
		// Limit each sum, so that it cannot overflow.
		sum.bytes = min(sum.bytes+more.bytes, 2*maxDocument)
		sum.values = min(sum.values+more.values, 2*maxValues)
	}
	if n.Anchor != "" {
		w.done[n] = sum
	}
	return sum
}

// longNumberDigits is the minimum number of digits of a number without an exponent that may exceed the limits.
const longNumberDigits = 40

// hasLongNumber reports whether the text may contain a quantity beyond the limits. Such a quantity has an exponent of
// two digits, or longNumberDigits consecutive digits and points. Like aliasMarks, it does not use a regular
// expression.
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

// quantityBounds returns errors for the quantities of an object that are too long to be parsed.
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
