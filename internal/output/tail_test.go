package output

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   string
		cut    bool
	}{
		"empty":          {nil, "", false},
		"all":            {[]string{"a\n", "b\n"}, "a\nb\n", false},
		"exactly":        {[]string{"12345\n789\n"}, "12345\n789\n", false},
		"cut":            {[]string{"12345\n7890\n"}, "7890\n", true},
		"in the line":    {[]string{"12345", "67890", "1"}, "2345678901", true},
		"one large":      {[]string{strings.Repeat("x", 100) + "\nend\n"}, "end\n", true},
		"one long line":  {[]string{strings.Repeat("x", 100) + "\n"}, "xxxxxxxxx\n", true},
		"large then end": {[]string{strings.Repeat("x", 100), "\nend\n"}, "end\n", true},
	} {
		tail := &Tail{Limit: 10}
		for _, w := range c.writes {
			io.WriteString(tail, w)
		}
		if got, cut := tail.Lines(); got != c.want || cut != c.cut {
			t.Errorf("%s: %q, cut %t; want %q, %t", name, got, cut, c.want, c.cut)
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	tail := &Tail{Limit: 100}
	for i := range 10_000 {
		fmt.Fprintf(tail, "line %d\n", i)
		if len(tail.kept) > 2*tail.Limit {
			t.Fatalf("it keeps %d bytes", len(tail.kept))
		}
	}
	if got, cut := tail.Lines(); !cut || len(got) > 100 || !strings.HasPrefix(got, "line ") || !strings.HasSuffix(got, "line 9999\n") {
		t.Errorf("%q, cut %t", got, cut)
	}
}
