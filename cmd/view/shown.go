package view

import (
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// ShownText returns the text of an error or a warning with bounded lines and without the
// credentials in URLs. Such a text may include the messages of runtimes and registries, and
// URLs that a user typed in place of another argument (podrun image pull https://…).
func ShownText(text string) string {
	var b strings.Builder
	for line := range strings.Lines(problem.ShownURLs(text)) {
		line, ended := strings.CutSuffix(line, "\n")
		b.WriteString(event.Cut(line))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// ShownProblems returns problems with shownText applied to their texts.
func ShownProblems(l problem.List) problem.List {
	out := slices.Clone(l)
	for i := range out {
		out[i].Message = ShownText(out[i].Message)
	}
	return out
}
