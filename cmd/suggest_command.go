package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lookup"
)

// unknownWord is the error for a word in the position of a command.
type unknownWord struct {
	word, path string // path is the command before the word
	like       string // the command that the user probably meant, or ""
}

func (e *unknownWord) Error() string {
	text := fmt.Sprintf("%q is not a command of %s", e.word, e.path)
	if e.like != "" {
		text += " (did you mean " + e.like + "?)"
	}
	return text
}

// suggestCommand completes the hint of an error about one word of the command line. If podrun finds a
// valid word to replace it, the hint is the command line with that word.
func (a *app) suggestCommand(e *problem.Error) {
	switch cause := e.Err.(type) {
	case *unknownWord:
		if at := slices.Index(a.typed, cause.word); at >= 0 && cause.like != "" {
			e.Hint = "use " + a.withWords(at, at+1, strings.Fields(cause.like)...)
		}
	case *notPodError:
		if cause.name != "" && instead(cause.kind) == useServices && slices.ContainsFunc(a.typed, isServiceCommand) {
			e.Hint = "name a pod of the Service: " + a.withName(cause.kind+"/"+cause.name, cause.name)
		}
	case *access.UnknownContainer:
		if hint := a.likelyContainer(cause); hint != "" {
			e.Hint = hint
		}
	case *lookup.OtherDefinition:
		if from, to := a.workloadAt(cause.Named); to > 0 {
			e.Hint = fmt.Sprintf("a %s defines the pod %s: use %s", cause.Defined.Kind, cause.Named.Name, a.withWords(from, to, cause.Defined.String()))
		}
	}
}

// isServiceCommand reports whether a word is a command that kubectl accepts for the pods of a Service.
func isServiceCommand(word string) bool {
	return slices.Contains([]string{"logs", "exec", "attach"}, word)
}

// withWords returns the command line with other words in place of those from index i to j, in quotation marks.
func (a *app) withWords(i, j int, words ...string) string {
	line := slices.Replace(slices.Clone(a.typed), i, j, words...)
	if n := len(line); n > 0 && line[n-1] == "--" { // added by imageWithDash
		line = line[:n-1]
	}
	return "'podrun " + shellword.Join(line) + "'"
}

// likelyContainer returns the hint for a container that the pod does not have. It returns "" if the
// command line does not name the container.
func (a *app) likelyContainer(e *access.UnknownContainer) string {
	var names []string
	for _, shown := range e.Has {
		name, _, _ := strings.Cut(shown, " ")
		names = append(names, name)
	}
	like := closestPod(e.Name, names)
	for i, word := range a.typed {
		if word == "--" || len(names) == 0 {
			break
		}
		for _, flag := range []string{"", "-c=", "-c", "--container="} {
			switch {
			case word != flag+e.Name:
			case like != "":
				return "did you mean " + like + "? " + a.withWords(i, i+1, flag+like)
			default:
				return "name one of its containers, for example " + a.withWords(i, i+1, flag+names[0])
			}
		}
	}
	return ""
}

// workloadAt returns the indexes of the words that name a workload (deploy/web, or deploy web). The second one
// is 0 if the command line does not contain them.
func (a *app) workloadAt(r lookup.Ref) (from, to int) {
	for i, word := range a.typed {
		if word == "--" {
			break
		}
		kind, name, ok := strings.Cut(word, "/")
		switch {
		case ok && name == r.Name && apikind.WorkloadKind(kind) == r.Kind:
			return i, i + 1
		case !ok && word == r.Name && i > 0 && apikind.WorkloadKind(a.typed[i-1]) == r.Kind:
			return i - 1, i + 1
		}
	}
	return 0, 0
}
