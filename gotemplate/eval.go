package gotemplate

import (
	"fmt"
	"text/template/parse"
)

// pipe evaluates a pipeline, and declares or assigns its variables.
func (e *execution) pipe(p *parse.PipeNode) (any, error) {
	v, err := e.pipeValue(p)
	if err != nil {
		return nil, err
	}
	for _, d := range p.Decl {
		if !p.IsAssign {
			e.variables = append(e.variables, variable{d.Ident[0], v})
		} else if err := e.assign(d.Ident[0], v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// pipeValue evaluates a pipeline: the value of each command is the last argument of
// the next.
func (e *execution) pipeValue(p *parse.PipeNode) (any, error) {
	var v any
	for i, c := range p.Cmds {
		var final []any
		if i > 0 {
			final = []any{v}
		}
		var err error
		if v, err = e.command(c, final); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (e *execution) command(c *parse.CommandNode, final []any) (any, error) {
	if err := e.step(); err != nil {
		return nil, err
	}
	if name, ok := c.Args[0].(*parse.IdentifierNode); ok {
		return e.function(name.Ident, c.Args[1:], final)
	}
	if len(c.Args) > 1 || len(final) > 0 {
		return nil, fmt.Errorf("%s is not a function and takes no argument", c.Args[0])
	}
	return e.value(c.Args[0])
}

// function calls a function. And and or evaluate no more arguments than they need.
func (e *execution) function(name string, args []parse.Node, final []any) (any, error) {
	var values []any
	for _, arg := range args {
		v, err := e.value(arg)
		if err != nil {
			return nil, err
		}
		if name == "and" && !truth(v) || name == "or" && truth(v) {
			return v, nil
		}
		values = append(values, v)
	}
	do, ok := functions[name].(func([]any) (any, error))
	if !ok {
		return nil, fmt.Errorf("there is no function %s", name)
	}
	v, err := do(append(values, final...))
	if err != nil {
		return nil, fmt.Errorf("error calling %s: %w", name, err)
	}
	return v, nil
}

// value evaluates an operand.
func (e *execution) value(n parse.Node) (any, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		return e.dot, nil
	case *parse.NilNode:
		return nil, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		if n.IsInt {
			return n.Int64, nil
		}
		return n.Float64, nil
	case *parse.FieldNode:
		return e.fields(e.dot, n.Ident)
	case *parse.VariableNode:
		v, err := e.variable(n.Ident[0])
		if err != nil {
			return nil, err
		}
		return e.fields(v, n.Ident[1:])
	case *parse.ChainNode:
		v, err := e.value(n.Node)
		if err != nil {
			return nil, err
		}
		return e.fields(v, n.Field)
	case *parse.PipeNode:
		return e.pipe(n)
	case *parse.IdentifierNode:
		return e.function(n.Ident, nil, nil)
	}
	return nil, fmt.Errorf("%s is not supported", n)
}

// fields follows a chain of fields.
func (e *execution) fields(v any, names []string) (any, error) {
	for _, name := range names {
		switch of := v.(type) {
		case map[string]any:
			next, ok := of[name]
			if !ok {
				if e.template.MissingIsError {
					return nil, fmt.Errorf("map has no entry for key %q", name)
				}
				next = missing{}
			}
			v = next
		case nil, missing:
			if e.template.MissingIsError {
				return nil, fmt.Errorf("nil data; no entry for key %q", name)
			}
			v = missing{}
		default:
			return nil, fmt.Errorf("can't evaluate field %s of %s", name, text(v))
		}
	}
	return v, nil
}
