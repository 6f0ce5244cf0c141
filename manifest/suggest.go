package manifest

import (
	"reflect"
	"strings"
)

// similarField returns the field that the author of an unknown path probably meant. It is a
// field of the same struct with a similar name; "" if there is none.
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

// nearest returns the name with the smallest edit distance from word. The distance may be at most
// three, and at most a third of the length of word. nearest ignores case.
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

// edits returns the edit distance of two words, in bytes. An edit inserts, removes or replaces a
// letter, or exchanges two adjacent letters. The latter is a single typing mistake (Pdo for
// Pod).
func edits(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	// The three rows belong to the letters i-2, i-1 and i of a.
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
