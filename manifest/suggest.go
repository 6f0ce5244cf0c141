package manifest

import (
	"reflect"
	"strings"
)

// similarField returns the field that an unknown path was perhaps meant to
// name: one of the same struct, spelled nearly so; "" when there is none.
func similarField(t reflect.Type, path []string) string {
	if len(path) == 0 {
		return ""
	}
	t, ok := descend(t, path[:len(path)-1])
	if !ok || t.Kind() != reflect.Struct {
		return ""
	}
	names := []string{}
	for _, f := range jsonFields(t) {
		names = append(names, f.name)
	}
	return nearest(path[len(path)-1], names)
}

// nearest returns the name that differs from word by the fewest edits, a third
// of its letters at most and three in all; upper and lower case are one.
func nearest(word string, names []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", min(3, len(word)/3)+1
	for _, name := range names {
		if d := edits(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two words, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
