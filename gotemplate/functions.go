package gotemplate

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
)

// functions are the functions of templates, of type func([]any) (any, error).
var functions = map[string]any{
	"and":          last,
	"or":           last,
	"not":          one(func(v any) (any, error) { return !truth(v), nil }),
	"len":          one(length),
	"index":        index,
	"slice":        slice,
	"print":        func(args []any) (any, error) { return fmt.Sprint(shown(args)...), nil },
	"println":      func(args []any) (any, error) { return fmt.Sprintln(shown(args)...), nil },
	"printf":       printf,
	"html":         joined(html.EscapeString),
	"urlquery":     joined(url.QueryEscape),
	"eq":           equal,
	"ne":           compared(func(order int) bool { return order != 0 }),
	"lt":           compared(func(order int) bool { return order < 0 }),
	"le":           compared(func(order int) bool { return order <= 0 }),
	"gt":           compared(func(order int) bool { return order > 0 }),
	"ge":           compared(func(order int) bool { return order >= 0 }),
	"exists":       exists,
	"base64decode": one(decode),
}

var errArguments = errors.New("wrong number of arguments")

func one(do func(any) (any, error)) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if len(args) != 1 {
			return nil, errArguments
		}
		return do(args[0])
	}
}

// last ends and and or: the arguments before the last did not decide.
func last(args []any) (any, error) {
	if len(args) == 0 {
		return nil, errArguments
	}
	return args[len(args)-1], nil
}

// shown replaces what is missing by what text/template prints for it.
func shown(args []any) []any {
	out := make([]any, len(args))
	for i, v := range args {
		if out[i] = v; v == (missing{}) || v == nil {
			out[i] = "<no value>"
		}
	}
	return out
}

func joined(do func(string) string) func([]any) (any, error) {
	return func(args []any) (any, error) { return do(fmt.Sprint(shown(args)...)), nil }
}

// maxWidth is the largest width or precision of printf, in digits: 999.
const maxWidth = 3

func printf(args []any) (any, error) {
	if len(args) == 0 {
		return nil, errArguments
	}
	format, ok := args[0].(string)
	if !ok {
		return nil, errors.New("the format is not a string")
	}
	digits := 0
	for _, r := range format {
		if digits++; r < '0' || r > '9' {
			digits = 0
		}
		if digits > maxWidth || r == '*' {
			return nil, errors.New("the format has a width of more than 999")
		}
	}
	return fmt.Sprintf(format, shown(args[1:])...), nil
}

func length(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return int64(len(v)), nil
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	}
	return nil, fmt.Errorf("%s has no length", text(v))
}

// find follows indices; ok is false where one leads nowhere.
func find(args []any) (v any, ok bool, err error) {
	if len(args) == 0 {
		return nil, false, errArguments
	}
	v = args[0]
	for _, at := range args[1:] {
		switch of := v.(type) {
		case []any:
			i, isInt := at.(int64)
			if !isInt {
				return nil, false, fmt.Errorf("can't index a list with %s", text(at))
			}
			if i < 0 || i >= int64(len(of)) {
				return nil, false, fmt.Errorf("index out of range: %d", i)
			}
			v = of[i]
		case map[string]any:
			key, isText := at.(string)
			if !isText {
				return nil, false, fmt.Errorf("can't index an object with %s", text(at))
			}
			next, have := of[key]
			if !have {
				return missing{}, false, nil
			}
			v = next
		default:
			return nil, false, fmt.Errorf("can't index %s", text(v))
		}
	}
	return v, v != nil && v != missing{}, nil
}

func index(args []any) (any, error) {
	v, _, err := find(args)
	return v, err
}

// exists is kubectl's: whether index would find something.
func exists(args []any) (any, error) {
	_, ok, err := find(args)
	return ok && err == nil, nil
}

func slice(args []any) (any, error) {
	if len(args) == 0 || len(args) > 3 {
		return nil, errArguments
	}
	size, err := length(args[0])
	if err != nil {
		return nil, err
	}
	bounds := [2]int64{0, size.(int64)}
	for i, at := range args[1:] {
		n, ok := at.(int64)
		if !ok || n < 0 || n > bounds[1] {
			return nil, fmt.Errorf("index out of range: %s", text(at))
		}
		bounds[i] = n
	}
	if bounds[0] > bounds[1] {
		return nil, fmt.Errorf("invalid slice index: %d > %d", bounds[0], bounds[1])
	}
	switch v := args[0].(type) {
	case string:
		return v[bounds[0]:bounds[1]], nil
	case []any:
		return v[bounds[0]:bounds[1]], nil
	}
	return nil, errors.New("can't slice an object")
}

// equal reports whether the first argument equals any other.
func equal(args []any) (any, error) {
	if len(args) < 2 {
		return nil, errArguments
	}
	for _, other := range args[1:] {
		order, err := compare(args[0], other)
		if err != nil {
			return nil, err
		}
		if order == 0 {
			return true, nil
		}
	}
	return false, nil
}

func compared(holds func(int) bool) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if len(args) != 2 {
			return nil, errArguments
		}
		order, err := compare(args[0], args[1])
		return holds(order), err
	}
}

// compare orders two basic values of one type. What is missing equals only itself.
func compare(a, b any) (int, error) {
	none := func(v any) bool { return v == nil || v == missing{} }
	switch {
	case isComposite(a) || isComposite(b):
		return 0, errors.New("non-comparable type for comparison")
	case none(a) && none(b):
		return 0, nil
	case none(a) || none(b):
		return -1, nil
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), nil
		}
	case bool:
		if b, ok := b.(bool); ok {
			return cmp.Compare(rank(a), rank(b)), nil
		}
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b), nil
		case float64:
			return cmp.Compare(float64(a), b), nil
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, float64(b)), nil
		case float64:
			return cmp.Compare(a, b), nil
		}
	}
	return 0, errors.New("incompatible types for comparison")
}

func isComposite(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func decode(v any) (any, error) {
	encoded, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%s is not a string", text(v))
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	return string(data), err
}
