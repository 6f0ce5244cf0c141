package pods

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
)

// explainInterrupt adds a hint to the last pod whose start a signal interrupted. The hint states whether podrun
// keeps the pods, and lists the commands that continue their start, show them and remove them.
func (f *applyFlags) explainInterrupt(entries []run.Entry, objects *manifest.Objects, named []string) {
	var kept []identity.Pod
	for _, e := range entries {
		if !e.Unrequested && isInterrupted(e.Err) && e.Remains {
			kept = append(kept, e.ID)
		}
	}
	hint := "podrun removed what it had created; run the command again to start the pod"
	if len(kept) > 0 {
		hint = keptHint(kept, f.filesOf(objects, named))
	}
	hintInterrupted(entries, hint)
}

func isInterrupted(err error) bool {
	_, interrupted := errors.AsType[exit.SignalError](err)
	return interrupted
}

// hintInterrupted adds a hint to the last error that a signal caused, so that it is printed once for all objects that
// the user requested.
func hintInterrupted(entries []run.Entry, hint string) {
	for i, e := range slices.Backward(entries) {
		if !e.Unrequested && isInterrupted(e.Err) {
			entries[i].Err = &problem.Error{Kind: problem.Failed, Err: e.Err, Hint: hint}
			return
		}
	}
}

// filesOf returns the arguments with which delete selects the pods of the input. The result is empty if
// delete cannot find the pods in the input.
func (f *applyFlags) filesOf(objects *manifest.Objects, named []string) (args []string) {
	files := slices.Concat(f.Files, named)
	generated := slices.ContainsFunc(objects.Pods, func(p manifest.Pod) bool { return p.Object.GenerateName != "" })
	if generated || slices.Contains(files, "-") {
		return nil
	}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	if f.Kustomize != "" {
		args = append(args, "-k", f.Kustomize)
	}
	return args
}

// keptHint returns the hint for pods that remain on this host after a signal. The argument files has the
// arguments of delete that select the pods. If it is empty, the hint has their names.
func keptHint(kept []identity.Pod, files []string) string {
	var names, namespace []string
	for _, id := range kept {
		names = append(names, id.Name)
	}
	first := kept[0].Namespace
	severalNamespaces := slices.ContainsFunc(kept, func(id identity.Pod) bool { return id.Namespace != first })
	if first != "default" && !severalNamespaces {
		namespace = []string{"-n", first}
	}
	show := "podrun get " + shellword.Join(append(names, namespace...))
	remove := "podrun delete " + shellword.Join(append(names, namespace...))
	if len(files) > 0 {
		remove = "podrun delete " + shellword.Join(append(files, namespace...))
	}
	if severalNamespaces {
		show = "podrun get -A"
	}
	if severalNamespaces && len(files) == 0 {
		remove = "podrun delete NAME -n NAMESPACE"
	}
	state := "the pod remains: run the command again to continue its start, '%s' to show it, or '%s' to remove it"
	if len(kept) > 1 {
		state = "the pods remain: run the command again to continue their start, '%s' to show them, or '%s' to remove them"
	}
	return fmt.Sprintf(state, show, remove)
}
