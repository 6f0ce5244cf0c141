package manifest

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestHostile: input made to take for ever is refused soon. The bound is wide,
// for a busy machine; what it guards against takes minutes.
func TestHostile(t *testing.T) {
	pod := func(list, entry string, size int) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: i\n    " + list + ":\n" + strings.Repeat(entry, size/len(entry))
	}
	const bound = 30 * time.Second
	for name, tc := range map[string]struct {
		text string
		want string // in a problem; empty: none
	}{
		"documents":        {strings.Repeat("a\n---\n", 1<<20), "more than 10000 documents"},
		"JSON documents":   {strings.Repeat("{}", 1<<20), "more than 10000 documents"},
		"separators":       {strings.Repeat("---\n", 2<<20), "no objects in input"},
		"brackets":         {strings.Repeat("[", 8<<20), "exceeded max depth"},
		"braces":           {strings.Repeat(`{"a":`, 1<<20), "exceeded max depth"},
		"dashes":           {strings.Repeat("- ", 1<<20), "exceeded max depth"},
		"items":            {`{"apiVersion":"v1","kind":"List","items":[` + strings.Repeat("{},", 20000) + "{}]}", "more than 10000 items"},
		"a large object":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 4<<20) + "}\n", "larger than 3 MiB"},
		"environment":      {pod("env", "    - {name: A}\n", 1<<20), ""},
		"ports":            {pod("ports", "    - {containerPort: 1}\n", 1<<20), ""},
		"duplicate fields": {"a: 1\n" + strings.Repeat("b: 1\n", 1<<18), "and "},
		"billion laughs": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "excessive aliasing"},
		"an alias of itself": {"a: &a [*a]\n", "contains itself"},
		"binary":             {string(bytes.Repeat([]byte{0}, 1<<20)), "control characters are not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			_, problems := Load([]Source{{"f", []byte(tc.text)}}, Options{})
			if took := time.Since(begin); took > bound {
				t.Errorf("took %s", took)
			}
			if text := problems.Errors().String(); tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
				t.Errorf("problems %.300s, want %q", text, tc.want)
			}
		})
	}
}
