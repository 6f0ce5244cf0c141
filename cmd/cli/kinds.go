package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
)

// KindOf returns the kind of a type's name, Pod included, or "".
func KindOf(word string) string {
	if grammar.IsPodType(word) {
		return apikind.Pod
	}
	if t := apikind.Of(word); t != nil {
		return t.Kind
	}
	return ""
}

// KindsOf returns the kinds in a list of types, such as deploy,cm, or nil if the word is not a
// type. If only some of the listed types are kinds that get prints, it returns a usage error.
func KindsOf(list string) (kinds []string, err error) {
	words := strings.Split(list, ",")
	claims := false
	for _, word := range words {
		switch kind := KindOf(word); {
		case strings.EqualFold(word, "all"):
			kinds = append(kinds, apikind.All()...)
		case kind != "":
			kinds = append(kinds, kind)
		case len(words) == 1:
			return nil, nil
		case slices.Contains(apikind.ClaimTypes, strings.ToLower(word)):
			claims = true
		default:
			return nil, notInList(word, words)
		}
	}
	if claims {
		return nil, problem.UsageError(errors.New("pvc cannot be combined with other types"), "run 'podrun get pvc' to list claims, and a second 'podrun get' for the other types")
	}
	return kinds, nil
}

// notInList returns the usage error for a list of types that contains a type that get does not
// print.
func notInList(word string, words []string) error {
	var rest []string
	for _, other := range words {
		if KindOf(other) != "" || strings.EqualFold(other, "all") {
			rest = append(rest, other)
		}
	}
	hint := grammar.Instead(word)
	if len(rest) > 0 {
		other := "run 'podrun get " + strings.Join(rest, ",") + "' for the other types"
		if hint != "" {
			other = hint + "; " + other
		}
		hint = other
	}
	return problem.UsageError(fmt.Errorf("podrun has no objects of the type %q: get prints pods, workloads, Services, EndpointSlices, ConfigMaps and Secrets", word), hint)
}

// ResourceOf returns the name of a type as -o name prints it.
func ResourceOf(kind string) string {
	if t := apikind.Of(kind); t != nil {
		return t.Resource
	}
	return "pod"
}

// IsServiceType reports whether a word is a name of the type Service.
func IsServiceType(word string) bool {
	t := apikind.Of(word)
	return t != nil && t.Kind == apikind.Service
}

// NamedServices returns the names of Services in the arguments of delete: svc NAME..., svc/NAME..., or
// only svc with --all or -l. It returns false if the arguments name other objects.
func NamedServices(given []string) (names []string, ok bool) {
	if len(given) == 0 {
		return nil, false
	}
	if IsServiceType(given[0]) {
		return given[1:], true
	}
	for _, word := range given {
		kind, name, typed := strings.Cut(word, "/")
		if !typed || !IsServiceType(kind) || name == "" {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}
