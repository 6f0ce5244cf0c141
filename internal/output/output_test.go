package output

import (
	"fmt"
	"testing"
)

func TestHead(t *testing.T) {
	for _, c := range []struct {
		writes []string
		kept   string
		cuts   int
	}{
		{nil, "", 0},
		{[]string{"abc"}, "abc", 0},
		{[]string{"ab", "", "cd"}, "abcd", 0},
		{[]string{"abcde"}, "abcd", 1},
		{[]string{"abc", "def", "ghi"}, "abcd", 1},
	} {
		t.Run(fmt.Sprintf("%q", c.writes), func(t *testing.T) {
			cuts := 0
			h := &Head{Limit: 4, OnCut: func() { cuts++ }}
			for _, text := range c.writes {
				if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
					t.Errorf("Write(%q) = %d, %v", text, n, err)
				}
			}
			if h.String() != c.kept || string(h.Bytes()) != c.kept || cuts != c.cuts || h.Cut() != (c.cuts > 0) {
				t.Errorf("kept %q, %d cuts, Cut() = %t; want %q, %d", h, cuts, h.Cut(), c.kept, c.cuts)
			}
		})
	}
}
