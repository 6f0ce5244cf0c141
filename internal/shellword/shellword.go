// Package shellword quotes words for command lines that users copy into a shell.
package shellword

import (
	"regexp"
	"strings"
	"sync"

	"github.com/podrun/podrun/internal/problem"
)

// harmless are the words that a shell does not change.
var harmless = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`) })

// Quote quotes a word for a shell if necessary. It omits the credentials of a URL.
func Quote(word string) string {
	word = problem.ShownURL(word)
	if harmless().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Join returns words as a command line.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
