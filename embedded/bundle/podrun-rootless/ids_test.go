package main

import (
	"strings"
	"testing"
)

func TestIDMap(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want string
	}{
		"none":              {"", "0 1001 1\n"},
		"name":              {"other:1:2\nrl:100000:65536\n", "0 1001 1\n1 100000 65536\n"},
		"number":            {"1001:100000:65536", "0 1001 1\n1 100000 65536\n"},
		"several lines":     {"rl:100000:1000\n1001:300000:10\n", "0 1001 1\n1 100000 1000\n1001 300000 10\n"},
		"malformed":         {"rl\nrl:x:1\nrl:1:\nrl:5:0\nrl:4294967295:2\n:5:5\nrl:1:2:3\nrl:-1:5\n", "0 1001 1\n"},
		"name as a prefix":  {"rl2:100000:65536\n", "0 1001 1\n"},
		"same range twice":  {"rl:100000:10\nrl:100000:10\n", "0 1001 1\n1 100000 10\n"},
		"overlap":           {"rl:100000:10\nrl:100005:10\n", "0 1001 1\n1 100000 10\n11 100010 5\n"},
		"contains another":  {"rl:100003:2\nrl:100000:10\n", "0 1001 1\n1 100003 2\n3 100000 3\n6 100005 5\n"},
		"contains the user": {"rl:1000:10\n", "0 1001 1\n1 1000 1\n2 1002 8\n"},
		"the last ID":       {"rl:4294967290:5\n", "0 1001 1\n1 4294967290 5\n"},
		"more than 2^32":    {"rl:2000:4294960000\nrl:10:1990\n", "0 1001 1\n1 2000 4294960000\n4294960001 10 991\n4294960992 1002 998\n"},
	} {
		if got := mapText(idMap(1001, ranges(c.file, "rl", 1001))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestIDMapLimits checks the kernel's limits.
func TestIDMapLimits(t *testing.T) {
	var file strings.Builder
	for i := range 1000 {
		file.WriteString("rl:" + strings.Repeat("1", i%3+1) + "00" + string(rune('0'+i%10)) + "000:1\n")
	}
	all := idMap(7, ranges(file.String(), "rl", 7))
	if n := len(all); n < 10 || n > maxRanges || len(mapText(all)) > maxMapText {
		t.Errorf("%d ranges, %d bytes", n, len(mapText(all)))
	}
	var many []idRange
	for i := range uint32(1000) {
		many = append(many, idRange{outside: 10 + 2*i, count: 1})
	}
	if n := len(idMap(7, many)); n > maxRanges || len(mapText(idMap(7, many))) > maxMapText {
		t.Errorf("%d ranges, %d bytes", n, len(mapText(idMap(7, many))))
	}
}

func TestNameOf(t *testing.T) {
	passwd := "root:x:0:0::/:\nrl:x:1001:1001::/home/rl:/bin/sh\nbroken\n"
	if got := nameOf(passwd, 1001); got != "rl" {
		t.Errorf("%q", got)
	}
	if got := nameOf(passwd, 1); got != "" {
		t.Errorf("%q", got)
	}
}

func TestNameService(t *testing.T) {
	for text, want := range map[string]string{"": "", "passwd: files sss\n": "", "subid: files\n": "", "subid:  sss # LDAP\n": "sss", "#subid: sss\n": "", "subid:\n": ""} {
		if got := nameService(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := ranges(rangeLines("0: ann 100000 65536\n1: ann 300000 10\nerror\n"), "ann", 7); len(got) != 2 || got[1] != (idRange{outside: 300000, count: 10}) {
		t.Errorf("ranges of getsubids: %v", got)
	}
}
