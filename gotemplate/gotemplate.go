// Package gotemplate executes Go templates over JSON values, as kubectl's -o go-template
// does. It uses the parser of text/template but not its execution, which looks up methods
// by name, so that the linker keeps every exported method of every type (6.5 MB in
// podrun). JSON values have no methods.
package gotemplate

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/template/parse"
)

// Limits of one execution: nodes executed, templates within templates, and bytes
// written. A template can call itself.
const (
	maxSteps  = 5_000_000
	maxDepth  = 200
	maxOutput = 64 << 20
)

// Template is a parsed template.
type Template struct {
	trees map[string]*parse.Tree
	// MissingIsError makes a field that an object lacks an error; otherwise it prints
	// <no value>, as text/template's missingkey=default does.
	MissingIsError bool
}

const mainName = "output"

// Parse parses a template with the functions of text/template but js and call, and
// kubectl's exists and base64decode.
func Parse(text string) (*Template, error) {
	trees, err := parse.Parse(mainName, text, "{{", "}}", functions)
	if err != nil {
		return nil, err
	}
	return &Template{trees: trees}, nil
}

// Execute executes the template over a JSON value: nil, bool, int64, float64, string,
// []any or map[string]any. What was written before an error stays.
func (t *Template) Execute(w io.Writer, data any) error {
	e := &execution{template: t, w: w, dot: data, variables: []variable{{"$", data}}}
	main := t.trees[mainName]
	if main == nil {
		return nil // nothing but definitions, or nothing
	}
	err := e.list(main.Root)
	if errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return nil // the parser refuses these outside of a range
	}
	return err
}

type variable struct {
	name  string
	value any
}

// execution is the state of one Execute.
type execution struct {
	template     *Template
	w            io.Writer
	dot          any
	variables    []variable // the last of a name counts
	steps, depth int
	written      int
}

var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

// missing is the value of a field that an object lacks.
type missing struct{}

func (e *execution) list(l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := e.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) step() error {
	if e.steps++; e.steps > maxSteps {
		return fmt.Errorf("the template takes more than %d steps", maxSteps)
	}
	return nil
}

func (e *execution) node(n parse.Node) error {
	if err := e.step(); err != nil {
		return err
	}
	switch n := n.(type) {
	case *parse.TextNode:
		return e.write(string(n.Text))
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		v, err := e.pipe(n.Pipe)
		if err == nil && len(n.Pipe.Decl) == 0 {
			err = e.write(text(v))
		}
		return err
	case *parse.IfNode:
		return e.branch(&n.BranchNode, false)
	case *parse.WithNode:
		return e.branch(&n.BranchNode, true)
	case *parse.RangeNode:
		return e.loop(n)
	case *parse.TemplateNode:
		return e.call(n)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	}
	return fmt.Errorf("%s is not supported", n)
}

func (e *execution) write(s string) error {
	if e.written += len(s); e.written > maxOutput {
		return fmt.Errorf("the template prints more than %d MiB", maxOutput>>20)
	}
	_, err := io.WriteString(e.w, s)
	return err
}

// scope runs do with a dot of its own, and drops the variables that it declared.
func (e *execution) scope(dot any, do func() error) error {
	was, mark := e.dot, len(e.variables)
	e.dot = dot
	err := do()
	e.dot, e.variables = was, e.variables[:mark]
	return err
}

// branch executes an if or a with; the latter sets dot.
func (e *execution) branch(n *parse.BranchNode, setsDot bool) error {
	return e.scope(e.dot, func() error {
		v, err := e.pipe(n.Pipe)
		if err != nil {
			return err
		}
		if !truth(v) {
			return e.list(n.ElseList)
		}
		if setsDot {
			e.dot = v
		}
		return e.list(n.List)
	})
}

// pair is an element of a range: its index or key, and its value.
type pair struct{ key, value any }

func pairsOf(v any) ([]pair, error) {
	var out []pair
	switch v := v.(type) {
	case nil, missing:
	case []any:
		for i, each := range v {
			out = append(out, pair{int64(i), each})
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, pair{key, v[key]})
		}
	default:
		return nil, fmt.Errorf("range can't iterate over %s", text(v))
	}
	return out, nil
}

func (e *execution) loop(n *parse.RangeNode) error {
	return e.scope(e.dot, func() error {
		v, err := e.pipeValue(n.Pipe)
		if err != nil {
			return err
		}
		pairs, err := pairsOf(v)
		if err != nil {
			return err
		}
		if len(pairs) == 0 {
			return e.list(n.ElseList)
		}
		for _, p := range pairs {
			err := e.scope(p.value, func() error {
				e.declareLoop(n.Pipe, p)
				return e.list(n.List)
			})
			if errors.Is(err, errBreak) {
				return nil
			}
			if err != nil && !errors.Is(err, errContinue) {
				return err
			}
		}
		return nil
	})
}

// declareLoop sets the variables of a range: one is the value, two are key and value.
func (e *execution) declareLoop(pipe *parse.PipeNode, p pair) {
	values := []any{p.key, p.value}
	if len(pipe.Decl) == 1 {
		values = values[1:]
	}
	for i, d := range pipe.Decl {
		if pipe.IsAssign {
			_ = e.assign(d.Ident[0], values[i]) // the parser knows the variable
		} else {
			e.variables = append(e.variables, variable{d.Ident[0], values[i]})
		}
	}
}

// call executes a template by its name. It sees none of the caller's variables.
func (e *execution) call(n *parse.TemplateNode) error {
	tree := e.template.trees[n.Name]
	if tree == nil {
		return fmt.Errorf("template %q is not defined", n.Name)
	}
	var data any = missing{}
	if n.Pipe != nil {
		var err error
		if data, err = e.pipe(n.Pipe); err != nil {
			return err
		}
	}
	if e.depth++; e.depth > maxDepth {
		return fmt.Errorf("template %q: more than %d templates within each other", n.Name, maxDepth)
	}
	was := e.variables
	e.variables = []variable{{"$", data}}
	err := e.scope(data, func() error { return e.list(tree.Root) })
	e.variables = was
	e.depth--
	return err
}

func (e *execution) assign(name string, value any) error {
	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == name {
			e.variables[i].value = value
			return nil
		}
	}
	return fmt.Errorf("the variable %s is not declared", name)
}

func (e *execution) variable(name string) (any, error) {
	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == name {
			return e.variables[i].value, nil
		}
	}
	return nil, fmt.Errorf("the variable %s is not declared", name)
}

// truth reports what if and with make of a value: text/template's rule.
func truth(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

// text prints a value as text/template does.
func text(v any) string {
	switch v.(type) {
	case nil, missing:
		return "<no value>"
	}
	return fmt.Sprint(v)
}
