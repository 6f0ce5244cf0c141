package node

import (
	"strconv"
	"testing"

	"github.com/podrun/podrun/internal/problem"
)

func TestWarnOnce(t *testing.T) {
	sent := map[string]int{}
	n := &Node{Warn: func(l problem.List) { sent[l[0].Message]++ }}
	warn := func(i int) { n.WarnOnce(problem.Problem{Message: strconv.Itoa(i)}) }
	for range 2 {
		for i := range maxWarned {
			warn(i)
		}
	}
	for message, times := range sent {
		if times != 1 {
			t.Errorf("%s was sent %d times", message, times)
		}
	}
	warn(maxWarned) // replaces warning 0
	warn(1)
	warn(0)
	if sent["1"] != 1 || sent["0"] != 2 {
		t.Errorf("after one more: 0 was sent %d times, 1 %d times; want 2 and 1", sent["0"], sent["1"])
	}
	if len(n.warned.known) != maxWarned || len(n.warned.order) != maxWarned {
		t.Errorf("%d texts are known, %d in order; want %d", len(n.warned.known), len(n.warned.order), maxWarned)
	}
}
