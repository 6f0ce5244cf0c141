package grammar

import (
	"os"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/shellword"
)

// WithSudo returns the command line with sudo. It adds -E if the environment contains settings
// of podrun.
func (a *Line) WithSudo() string {
	sudo := []string{"sudo"}
	if slices.ContainsFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PODRUN_") || strings.HasPrefix(v, "CONTAINER_RUNTIME_ENDPOINT=")
	}) {
		sudo = append(sudo, "-E")
	}
	return shellword.Join(slices.Concat(sudo, []string{"podrun"}, a.Typed))
}

// WithName returns the command line with another name in place of the pod's.
func (a *Line) WithName(name, other string) string {
	words := slices.Clone(a.Typed)
	for i, word := range words {
		if word == "--" {
			break
		}
		if word == name || strings.HasSuffix(word, "/"+name) {
			words[i] = strings.TrimSuffix(word, name) + other
			return "'podrun " + shellword.Join(words) + "'"
		}
	}
	return "run 'podrun get' to list the pods"
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
