package cli

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/ownruntime"
)

// suggestLimit is the time for which suggest waits for the runtime.
const suggestLimit = 2 * time.Second

// psOptions matches options of ps, which docker top passes to it.
var psOptions = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(a|e|l|w)[efjluwx]*$`) })

// suggest adds a hint to the error for a pod that was not found. The hint contains the object that the user probably
// meant: a pod with a similar name, a pod in another namespace, or the container with this ID. It also completes the
// hints for files that do not exist, and for a command that requires root.
func suggest(a *App, err error) error {
	e, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return err
	}
	a.Line.SuggestCommand(e)
	for i := range e.Problems {
		a.Line.SuggestFile(&e.Problems[i])
	}
	if (e.Hint == "use sudo" || e.Hint == "run as root") && os.Geteuid() != 0 {
		e.Hint = "use '" + a.Line.WithSudo() + "'"
	}
	if e.Err != problem.ErrNotFound || a.stored == nil {
		return err
	}
	name := e.Object[strings.LastIndexAny(e.Object, " /")+1:]
	if hint := likelyPod(a, name, a.stored()); hint != "" {
		e.Hint = hint
	} else if psOptions().MatchString(name) && len(a.Line.Typed) > 2 && a.Line.Typed[0] == "top" {
		e.Hint = a.Line.ProcessesHint()
	} else if isContainerID(name) {
		e.Hint = podOfContainer(a, name)
	}
	return err
}

// likelyPod returns the hint for a name if the namespace contains no pod with that name.
func likelyPod(a *App, name string, pods []identity.Pod) string {
	namespace := a.NamespaceOrDefault("default")
	if strings.Trim(namespace, "0123456789") == "" && slices.Contains(a.Line.Typed, "logs") {
		rest, value := a.Line.Without("n")
		if value == namespace {
			return "-n is the namespace; for the number of lines use 'podrun " + shellword.Join(rest) + " --tail=" + value + "'"
		}
	}
	var names []string
	for _, p := range pods {
		switch {
		case p.Namespace == namespace && p.Name == name:
			return "" // the pod was created since podrun looked for it
		case p.Namespace == namespace:
			names = append(names, p.Name)
		case p.Name == name && !slices.Contains(a.Line.Typed, "--"):
			rest, _ := a.Line.Without("n")
			return "the pod is in another namespace: 'podrun " + shellword.Join(append(rest, "-n", p.Namespace)) + "'"
		case p.Name == name:
			return "the pod is in the namespace " + p.Namespace + ": add -n " + p.Namespace
		}
	}
	like := grammar.ClosestPod(name, names)
	if like == "" && slices.Contains(a.Line.Typed, "get") {
		like = grammar.ClosestName(name, apikind.Names())
	}
	if like == "" {
		return ""
	}
	return "did you mean " + like + "? " + a.Line.WithName(name, like)
}

// podOfContainer returns the hint for the ID of a container, which users of crictl may type
// instead of a name.
func podOfContainer(a *App, id string) string {
	const list = "podrun commands take the names of pods; to list pods with the IDs of their containers, run " +
		`'podrun get -A -o custom-columns="POD:.metadata.name,ID:.status.containerStatuses[*].containerID"'`
	ctx, cancel := context.WithTimeout(a.Settings.Ctx, suggestLimit)
	defer cancel()
	node, closeAll, err := a.OpenNode(ctx, &Renderer{W: a.Streams.Err, Quiet: true}, ownruntime.Reads)
	if err != nil {
		return list
	}
	defer closeAll()
	found, err := containersWithID(ctx, node, "", id)
	if err != nil || len(found) == 0 {
		return list
	}
	c := found[0]
	hint := "this is the ID of container " + c.Container + " of pod " + c.Pod + ": " + a.Line.WithName(id, c.Pod)
	if c.Namespace != a.NamespaceOrDefault("default") {
		hint += " with -n " + c.Namespace
	}
	return hint
}
