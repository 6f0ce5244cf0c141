package grammar

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/lookup"
)

func IsPodType(word string) bool {
	return slices.Contains(apikind.PodTypes, strings.TrimSuffix(strings.ToLower(word), ".v1")) // pods.v1, as in kubectl
}

// PodRefs parses names of pods in all forms that kubectl accepts. These are NAME, pod/NAME, and names
// after the word pod, pods or po. Workloads are named after their type, as in deploy/NAME or job NAME. If
// aloneIsName is true, the single word pod is itself the name of a pod, as in kubectl logs and kubectl
// exec. Otherwise it selects all pods, as in kubectl get. podRefs returns nil if no pod is named. Any
// other resource type is a usage error.
func PodRefs(given []string, aloneIsName bool) (refs []lookup.Ref, err error) {
	if len(given) == 0 {
		return nil, nil
	}
	first, kind := given[0], ""
	switch {
	case IsPodType(first) && (len(given) > 1 || !aloneIsName):
		given = given[1:]
	case apikind.WorkloadKind(first) != "" && len(given) > 1:
		given, kind = given[1:], apikind.WorkloadKind(first)
	case len(given) > 1 && Instead(first) != "":
		return nil, notPodNamed(first, given[1])
	case strings.Contains(first, ",") && !strings.Contains(first, "/"):
		if err := podTypeList(first); err != nil {
			return nil, err
		}
		given = given[1:]
	}
	for _, word := range given {
		ref, err := PodRef(word)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(word, "/") {
			ref.Kind = kind
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// SplitServices separates the names of Services (svc/NAME) from other arguments.
func SplitServices(given []string) (others, services []string) {
	for _, word := range given {
		kind, name, _ := strings.Cut(word, "/")
		if t := apikind.Of(kind); t != nil && t.Kind == apikind.Service && name != "" && !strings.Contains(name, "/") {
			services = append(services, name)
			continue
		}
		others = append(others, word)
	}
	return others, services
}

// Resolve returns the names of the pods that refs name in the namespace. Missing joins the
// errors for workloads that do not define a pod of that name.
func Resolve(layout identity.Layout, namespace string, refs []lookup.Ref) (names []string, missing error) {
	for _, ref := range refs {
		all, err := ref.ResolveAll(layout, namespace)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		names = append(names, all...)
	}
	return names, missing
}

// podTypeList rejects a list of types such as pods,services, because it includes types other
// than pods.
func podTypeList(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		if !IsPodType(word) {
			return NotPods(word)
		}
	}
	return nil
}

// PodRef parses NAME, pod/NAME or deploy/NAME.
func PodRef(word string) (lookup.Ref, error) {
	kind, name, ok := strings.Cut(word, "/")
	switch {
	case word == "":
		return lookup.Ref{}, problem.UsageError(errors.New("the name of a pod is empty"), "run 'podrun get' to list the pods")
	case !ok && !LooksLikeFile(word):
		return lookup.Ref{Name: word}, nil
	case LooksLikeFile(word):
		return lookup.Ref{}, problem.UsageError(fmt.Errorf("%q is not a valid pod name", word), "use -f for a file")
	case !IsPodType(kind) && (apikind.WorkloadKind(kind) == "" || name == ""):
		return lookup.Ref{}, notPodNamed(kind, name)
	case name == "" || strings.Contains(name, "/"):
		return lookup.Ref{}, problem.UsageError(fmt.Errorf("%q is not of the form pod/NAME", word), "run 'podrun get' to list the pods")
	}
	return lookup.Ref{Kind: apikind.WorkloadKind(kind), Name: name}, nil
}

// LooksLikeFile reports whether a word looks like a path, or is - (standard input), rather than
// the name of a pod.
func LooksLikeFile(word string) bool {
	for _, end := range []string{".yaml", ".yml", ".json"} {
		if len(word) > len(end) && strings.HasSuffix(word, end) {
			return true
		}
	}
	return word == "-" || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") ||
		strings.HasSuffix(word, "/") && !IsPodType(strings.TrimSuffix(word, "/"))
}

// NotPods returns the usage error for a resource type that podrun does not support.
func NotPods(kind string) error {
	hint := Instead(kind)
	if hint == "" {
		hint = "write NAME or pod/NAME, and -n for the namespace"
	}
	return problem.UsageError(&notPodError{kind: kind}, hint)
}

// notPodError is the error for an object of a type that the command does not accept.
type notPodError struct{ kind, name string }

func (e *notPodError) Error() string {
	return fmt.Sprintf("this command does not accept objects of the type %q", e.kind)
}

// notPodNamed is like notPods, but puts the name of the object into the hint. It leaves NAME in the
// hint if the text cannot be a name, such as a URL, which may contain credentials.
func notPodNamed(kind, name string) error {
	err := NotPods(kind)
	if e, ok := errors.AsType[*problem.Error](err); ok && name != "" && !strings.ContainsAny(name, "/:@?#") {
		e.Err = &notPodError{kind: kind, name: name}
		e.Hint = strings.ReplaceAll(e.Hint, "NAME", shellword.Quote(name))
	}
	return err
}

const useTemplate = "write a workload as deploy/NAME; run 'podrun get all' to list the pods and the workloads that define them"
