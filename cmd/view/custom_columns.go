package view

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"

	"github.com/podrun/podrun/internal/resource"
)

// fieldPath matches a JSONPath expression with or without its braces and leading dot, as
// in --sort-by and -o custom-columns of kubectl.
var fieldPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\{\.?([^{}]+)\}$|^\.?([^{}]+)$`) })

// parseField parses an expression that fieldPath matches. A field that the object lacks yields
// no value and no error.
func parseField(text string) (*jsonpath.JSONPath, error) {
	m := fieldPath().FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is not a field such as {.metadata.name}", text)
	}
	parsed := jsonpath.New("field").AllowMissingKeys(true)
	if err := parsed.Parse("{." + m[1] + m[2] + "}"); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return parsed, nil
}

// columns prints fields of pods as columns.
type columns struct {
	headings []string
	fields   []*jsonpath.JSONPath
	bare     bool // without headings
}

// maxColumns limits the columns of one table.
const maxColumns = 100

// NewColumns parses NAME:.metadata.name,IP:.status.podIP.
func NewColumns(spec string, bare bool) (*columns, error) {
	parts := splitColumns(spec)
	if len(parts) > maxColumns {
		return nil, fmt.Errorf("%d columns exceed the limit of %d", len(parts), maxColumns)
	}
	c := &columns{bare: bare}
	for _, part := range parts {
		heading, path, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form HEADING:FIELD", part)
		}
		field, err := parseField(path)
		if err != nil {
			return nil, err
		}
		c.headings, c.fields = append(c.headings, heading), append(c.fields, field)
	}
	return c, nil
}

// splitColumns splits at commas outside of brackets, which enclose a filter or a union.
func splitColumns(spec string) []string {
	var out []string
	depth, begin := 0, 0
	for i, r := range spec {
		switch {
		case r == '[' || r == '(':
			depth++
		case r == ']' || r == ')':
			depth--
		case r == ',' && depth <= 0:
			out, begin = append(out, spec[begin:i]), i+1
		}
	}
	return append(out, spec[begin:])
}

// ColumnsOfFile converts the two lines of a file, headings and fields, to the syntax of
// the flag.
func ColumnsOfFile(text string) (string, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 {
		return "", errors.New("the file needs a line of headings and a line of fields")
	}
	headings, fields := strings.Fields(lines[0]), strings.Fields(lines[1])
	if len(headings) != len(fields) {
		return "", fmt.Errorf("the file has %d headings and %d fields", len(headings), len(fields))
	}
	for i := range headings {
		headings[i] += ":" + fields[i]
	}
	return strings.Join(headings, ","), nil
}

// PrintObj prints an object or each object of a list.
func (c *columns) PrintObj(o runtime.Object, w *bytes.Buffer) error {
	objects := []runtime.Object{o}
	switch o := o.(type) {
	case *corev1.PodList:
		objects = nil
		for i := range o.Items {
			objects = append(objects, &o.Items[i])
		}
	case *corev1.List:
		objects = nil
		for _, item := range o.Items {
			objects = append(objects, item.Object)
		}
	}
	tw := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0) // kubectl's widths
	if !c.bare {
		fmt.Fprintln(tw, strings.Join(c.headings, "\t"))
	}
	for _, o := range objects {
		object, err := asJSON(o)
		if err != nil {
			return err
		}
		cells := make([]string, len(c.fields))
		for j, field := range c.fields {
			values, err := valuesOf(field, object)
			if err != nil {
				return err
			}
			var texts []string
			for _, v := range values {
				texts = append(texts, Escape(fmt.Sprint(v))) // as kubectl: lines stay lines, and maps have Go's form
			}
			if len(texts) == 0 {
				texts = []string{"<none>"}
			}
			cells[j] = strings.Join(texts, ",")
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// asJSON converts a pod or a list to the form that templates require. Integers are int64.
func asJSON(o runtime.Object) (any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	var out map[string]any
	err = json.Unmarshal(data, &out)
	return out, err
}

// valuesOf returns the values of a field.
func valuesOf(field *jsonpath.JSONPath, object any) ([]any, error) {
	found, err := field.FindResults(object)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, list := range found {
		for _, v := range list {
			if v.IsValid() && v.CanInterface() {
				out = append(out, v.Interface())
			}
		}
	}
	return out, nil
}

// textOf formats a value: strings unchanged, everything else as JSON.
func textOf(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// SortPods sorts pods by a field (sortByField).
func SortPods(pods []corev1.Pod, by string) error {
	return SortByField(pods, by, func(p *corev1.Pod) runtime.Object { return p }, func(_, _ *corev1.Pod) int { return 0 })
}

// SortByField sorts objects by group and then by a field. Objects without the field come first.
// Numbers and quantities are sorted by value, and everything else as text.
func SortByField[T any](objects []T, by string, object func(*T) runtime.Object, group func(a, b *T) int) error {
	field, err := parseField(by)
	if err != nil {
		return err
	}
	type keyed struct {
		object T
		key    any
	}
	list := make([]keyed, len(objects))
	for i := range objects {
		data, err := asJSON(object(&objects[i]))
		if err != nil {
			return err
		}
		values, err := valuesOf(field, data)
		if err != nil {
			return err
		}
		list[i].object = objects[i]
		if len(values) > 0 {
			list[i].key = values[0]
		}
	}
	slices.SortStableFunc(list, func(a, b keyed) int {
		return cmp.Or(group(&a.object, &b.object), compareValues(a.key, b.key))
	})
	for i := range list {
		objects[i] = list[i].object
	}
	return nil
}

func compareValues(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	aq, err1 := resource.ParseQuantity(textOf(a))
	bq, err2 := resource.ParseQuantity(textOf(b))
	if err1 == nil && err2 == nil {
		return aq.Cmp(bq)
	}
	return cmp.Compare(textOf(a), textOf(b))
}
