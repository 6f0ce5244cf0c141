package rootless

import (
	"fmt"
	"testing"
)

func TestSubordinateIDs(t *testing.T) {
	for file, want := range map[string]string{
		"ann:100000:65536\n": "[{100000 65536}]",
		"bob:1:2\nann:300:10\n1001:200:100\nann:250:20\nann:x:1\nann:5:0\n:1:1\nann:7\n": "[{200 110}]",
		"root:0:1\n": "[]",
	} {
		if got := fmt.Sprint(SubordinateIDs(file, "ann", 1001)); got != want {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
}

func TestChangedIDs(t *testing.T) {
	const idMap = "0 1001 1\n1 100000 65536\n"
	for name, c := range map[string]struct {
		file string
		want bool
	}{
		"same":               {"ann:100000:65536", false},
		"two adjacent lines": {"ann:100000:30000\nann:130000:35536", false},
		"larger":             {"ann:100000:65537", true},
		"another range":      {"ann:200000:65536", true},
		"removed":            {"", true},
	} {
		if got := ChangedIDs(idMap, SubordinateIDs(c.file, "ann", 1001), 1001); got != c.want {
			t.Errorf("%s: changed: %v, want %v", name, got, c.want)
		}
	}
	if ChangedIDs("0 1001 1\n1 1000 1\n2 1002 8\n", SubordinateIDs("ann:1000:10", "ann", 1001), 1001) {
		t.Error("a range with the user's own ID counts as changed")
	}
	if ChangedIDs("0 1001 1\n", nil, 1001) {
		t.Error("a single ID without ranges counts as changed")
	}
}
