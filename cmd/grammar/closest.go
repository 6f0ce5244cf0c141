package grammar

import (
	"slices"
	"strings"
)

// ClosestName returns the name that the user probably meant, or "" unless there is exactly one
// candidate. Both words must have at least four letters and the same first letter. They must differ
// by one letter that is inserted, deleted or replaced, or by two letters that are swapped. There
// are two exceptions to the minimum length: words of three letters may differ by a swap, and a word
// of two letters may lack one letter of a name of three.
func ClosestName(typed string, names []string) string {
	found := ""
	for _, name := range names {
		lacksOne := len(typed) == 2 && len(name) == 3
		if min(len(typed), len(name)) < 3 && !lacksOne || typed[0] != name[0] || !isOneEdit(typed, name) {
			continue
		}
		if min(len(typed), len(name)) == 3 && !isSwap(typed, name) {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// isOneEdit reports whether one insertion, deletion, replacement or swap of adjacent
// letters converts a to b.
func isOneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(b) == len(a)+1:
		return a[i:] == b[i+1:]
	case len(b) != len(a) || a == b:
		return false
	case a[i+1:] == b[i+1:]:
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// isSwap reports whether two words of the same length have the same letters.
func isSwap(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return string(x) == string(y)
}

// ClosestPod returns the pod that the user probably meant: the only one whose name differs by
// one letter or begins with the typed text, or "".
func ClosestPod(typed string, names []string) string {
	typed = strings.TrimSuffix(typed, ".service")
	if slices.Contains(names, typed) {
		return typed
	}
	found := ""
	for _, name := range names {
		if min(len(typed), len(name)) >= 3 && (isOneEdit(typed, name) || strings.HasPrefix(name, typed) || strings.HasPrefix(typed, name+"-")) {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}
