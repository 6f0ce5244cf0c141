package grammar

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/podrun/podrun/cmd/apikind"
)

// wordsFile is the table of words of other tools. Its comment describes the rows.
//
//go:embed words.txt
var wordsFile string

// row is what podrun makes of words of another tool.
type row struct {
	podrun []string // the words of podrun that replace them
	hint   string   // if podrun refuses them: what to use instead
}

// words are the rows of words.txt by their keys.
var words = sync.OnceValue(func() map[string]*row {
	rows := map[string]*row{}
	for line := range strings.Lines(wordsFile) {
		if line == "\n" || line[0] == '#' {
			continue
		}
		keys, hint, refused := strings.Cut(strings.TrimSpace(line), " ? ")
		r := &row{hint: hint}
		if !refused {
			var text string
			keys, text, _ = strings.Cut(keys, " =")
			r.podrun = strings.Fields(text)
		}
		for key := range strings.SplitSeq(keys, ", ") {
			rows[key] = r
		}
	}
	return rows
})

// IsForeign reports whether words are a command of another tool, which podrun converts or refuses.
func IsForeign(command string) bool { return words()[command] != nil }

// IsRefused reports whether podrun refuses the words with this key of words.txt.
func IsRefused(key string) bool { return words()[key] != nil && words()[key].hint != "" }

// Words returns the keys of words.txt, sorted.
func Words() []string {
	var keys []string
	for key := range words() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Instead returns the hint for a type of objects that podrun does not support, or "" for an unknown type.
func Instead(kind string) string {
	if apikind.WorkloadKind(kind) != "" {
		return useTemplate
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".") // deployments.apps
	if r := words()[kind+"/"]; r != nil {
		return r.hint
	}
	return ""
}
