package grammar

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lookup"
)

// UnknownWord is the error for a word in the position of a command.
type UnknownWord struct {
	Word, Path string // path is the command before the word
	Like       string // the command that the user probably meant, or ""
}

func (e *UnknownWord) Error() string {
	text := fmt.Sprintf("%q is not a command of %s", e.Word, e.Path)
	if e.Like != "" {
		text += " (did you mean " + e.Like + "?)"
	}
	return text
}

// SuggestCommand completes the hint of an error about one word of the command line. If podrun finds a
// valid word to replace it, the hint is the command line with that word.
func (a *Line) SuggestCommand(e *problem.Error) {
	switch cause := e.Err.(type) {
	case *UnknownWord:
		if at := slices.Index(a.Typed, cause.Word); at >= 0 && cause.Like != "" {
			e.Hint = "use " + a.WithWords(at, at+1, strings.Fields(cause.Like)...)
		}
	case *notPodError:
		if cause.name != "" && Instead(cause.kind) == Instead("svc") && slices.ContainsFunc(a.Typed, isServiceCommand) {
			e.Hint = "name a pod of the Service: " + a.WithName(cause.kind+"/"+cause.name, cause.name)
		}
	case *access.UnknownContainer:
		if hint := a.likelyContainer(cause); hint != "" {
			e.Hint = hint
		}
	case *lookup.OtherDefinition:
		if from, to := a.workloadAt(cause.Named); to > 0 {
			e.Hint = fmt.Sprintf("a %s defines the pod %s: use %s", cause.Defined.Kind, cause.Named.Name, a.WithWords(from, to, cause.Defined.String()))
		}
	}
}

// isServiceCommand reports whether a word is a command that kubectl accepts for the pods of a Service.
func isServiceCommand(word string) bool {
	return slices.Contains([]string{"logs", "exec", "attach"}, word)
}

// likelyContainer returns the hint for a container that the pod does not have. It returns "" if the
// command line does not name the container.
func (a *Line) likelyContainer(e *access.UnknownContainer) string {
	var names []string
	for _, shown := range e.Has {
		name, _, _ := strings.Cut(shown, " ")
		names = append(names, name)
	}
	like := ClosestPod(e.Name, names)
	for i, word := range a.Typed {
		if word == "--" || len(names) == 0 {
			break
		}
		for _, flag := range []string{"", "-c=", "-c", "--container="} {
			switch {
			case word != flag+e.Name:
			case like != "":
				return "did you mean " + like + "? " + a.WithWords(i, i+1, flag+like)
			default:
				return "name one of its containers, for example " + a.WithWords(i, i+1, flag+names[0])
			}
		}
	}
	return ""
}

// workloadAt returns the indexes of the words that name a workload (deploy/web, or deploy web). The second one
// is 0 if the command line does not contain them.
func (a *Line) workloadAt(r lookup.Ref) (from, to int) {
	for i, word := range a.Typed {
		if word == "--" {
			break
		}
		kind, name, ok := strings.Cut(word, "/")
		switch {
		case ok && name == r.Name && apikind.WorkloadKind(kind) == r.Kind:
			return i, i + 1
		case !ok && word == r.Name && i > 0 && apikind.WorkloadKind(a.Typed[i-1]) == r.Kind:
			return i - 1, i + 1
		}
	}
	return 0, 0
}
