package complete

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/inspect"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/fielddoc"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

// completeWithin is the time limit of a completion, because the shell blocks during it. The
// shell cannot offer words that are found after this limit. A completion usually takes 10 ms; a
// busy or slow device needs more, and still gets its words.
const completeWithin = 250 * time.Millisecond

// completerOf is cobra's type for functions that complete a word.
type completer = func(c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective)

// flagValues are the possible values of flags, by command and flag or by flag alone.
var flagValues = map[string][]string{
	"validate":              {"strict", "warn", "ignore"},
	"dry-run":               {"none", "client", "server"},
	"wait":                  {"started", "ready", "completed"},
	"for":                   {"condition=Ready", "condition=Initialized", "condition=ContainersReady", "phase=Running", "phase=Succeeded", "phase=Failed", "ready", "started", "completed", "create", "delete", "jsonpath="},
	"exit-code-policy":      {"any", "all", "none"},
	"restart-policy":        {"Never", "OnFailure"},
	"cgroup-driver":         {"cgroupfs", "systemd"},
	"sort-by":               {".metadata.name", ".metadata.creationTimestamp", ".status.startTime", ".status.phase"},
	"skip-kinds":            {manifest.CustomKinds, "NetworkPolicy", "LimitRange", "ResourceQuota"},
	"output":                {"json", "yaml", "name"},
	"get output":            {"wide", "json", "yaml", "name", "jsonpath=", "jsonpath-as-json=", "jsonpath-file=", "go-template=", "go-template-file=", "custom-columns=", "custom-columns-file="},
	"events output":         {"wide", "json", "yaml", "name", "jsonl"},
	"top output":            {"json", "yaml"},
	"types":                 {"Normal", "Warning"},
	"patch type":            {"strategic", "merge", "json"},
	"profile":               grammar.DebugProfiles,
	"image-pull-policy":     {"Always", "IfNotPresent", "Never"},
	"serve output":          {"json"},
	"run output":            {"json", "yaml", "github", "junit="},
	"plan output":           {"json", "yaml"},
	"doctor output":         {"json", "yaml"},
	"version output":        {"json", "yaml"},
	"service status output": {"json", "yaml"},
}

// fileFlags are the flags whose value is a manifest.
var fileFlags = []string{"filename", "configmap", "secret"}

// completePods are the commands that take names of pods, and whether they accept more
// than one.
var completePods = map[string]bool{
	"edit": false, "patch": true, "label": true, "annotate": true, "set image": true, "set env": true, "set resources": true,
	"rollout history": true, "rollout restart": true, "rollout status": true, "rollout undo": true,
	"get": true, "describe": true, "top": true, "events": true, "delete": true, "wait": true, "restart": true, "stop": true, "start": true, "logs": false, "exec": false, "attach": false, "debug": false,
}

// IsCompletionRequest reports whether an argument is the hidden command that a shell runs to
// request completions.
func IsCompletionRequest(arg string) bool {
	return arg == cobra.ShellCompRequestCmd || arg == cobra.ShellCompNoDescRequestCmd
}

// AddCompletions registers the functions that complete arguments and flag values of all
// commands. It visits every flag, which takes several times as long as creating the
// commands, so it runs only when a shell requests completions.
func AddCompletions(a *cli.App, root *cobra.Command) {
	var each func(*cobra.Command)
	each = func(of *cobra.Command) {
		for _, c := range of.Commands() {
			path := strings.TrimPrefix(c.CommandPath(), "podrun ")
			completeArgs(a, c, path)
			c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(a, c, path, f) })
			each(c)
		}
	}
	each(root)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(a, root, "", f) })
}

func completeArgs(a *cli.App, c *cobra.Command, path string) {
	several, pods := completePods[path]
	switch {
	case pods:
		c.ValidArgsFunction = podCompleter(a, path, several)
	case path == "port-forward":
		c.ValidArgsFunction = func(c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
			return completeForward(a, c, given, word)
		}
	case path == "cp":
		c.ValidArgsFunction = func(c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
			return completeCopy(a, c, given, word)
		}
	case path == "image rm" || path == "image save":
		c.ValidArgsFunction = completerOf(a, imageWords)
	case slices.Contains([]string{"apply", "run", "plan", "diff", "doctor"}, path):
		c.ValidArgsFunction = completeManifests
	case path == "explain":
		c.ValidArgsFunction = completeFields
	case path == "version" || path == "options" || path == "image ls" || path == "image prune" || path == "image pull":
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// completeFlag registers the completion of one flag. The registration cannot fail, because each
// flag is registered once.
func completeFlag(a *cli.App, c *cobra.Command, path string, f *pflag.Flag) {
	var do completer
	values, known := flagValues[path+" "+f.Name]
	if !known {
		values, known = flagValues[f.Name]
	}
	if path+" "+f.Name == "events for" {
		_ = c.RegisterFlagCompletionFunc(f.Name, podCompleter(a, "events", true))
		return
	}
	choice, isChoice := f.Value.(*config.OneOf)
	switch {
	case isChoice:
		do = cobra.FixedCompletions(choice.Of, cobra.ShellCompDirectiveNoFileComp)
	case known:
		do = fixed(values)
	case f.Name == "namespace":
		do = completerOf(a, namespaceWords)
	case path+" "+f.Name == "cp container":
		do = completerOf(a, copyContainerWords)
	case f.Name == "container" || f.Name == "containers" || path+" "+f.Name == "debug target":
		do = completerOf(a, containerWords)
	case slices.Contains(fileFlags, f.Name):
		do = completeManifests
	case f.Value.Type() == "duration" || f.Value.Type() == "int" || f.Value.Type() == "int64":
		do = cobra.NoFileCompletions
	default:
		return
	}
	_ = c.RegisterFlagCompletionFunc(f.Name, do)
}

// fixed returns a completer that offers the given words. A word that ends in = is followed by
// its value, without a space.
func fixed(values []string) completer {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		if slices.ContainsFunc(values, func(v string) bool { return strings.HasSuffix(v, "=") && strings.HasPrefix(v, word) }) {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return withPrefix(values, word), directive
	}
}

// completeFields offers kinds or, after a path such as pod.spec., the fields of that path.
func completeFields(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(given) > 0 {
		return nil, directive
	}
	var all []string
	dot := strings.LastIndexByte(word, '.')
	if dot < 0 {
		for _, k := range fielddoc.Kinds {
			all = append(all, k.Names[1])
		}
		return withPrefix(all, word), directive
	}
	parent, err := inspect.FindField(word[:dot])
	if err != nil {
		return nil, directive
	}
	for _, f := range parent.Fields() {
		all = append(all, word[:dot+1]+f.Name)
	}
	return withPrefix(all, word), directive
}

func completeManifests(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// words returns the candidates for a word, or nil on any error.
type words func(ctx context.Context, a *cli.App, node *run.Node, given []string) []string

// completerOf returns a completer that offers the words that read returns within completeWithin.
// Errors are never printed to the terminal.
func completerOf(a *cli.App, read words) completer {
	return func(c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
		return withPrefix(readWithLimit(c.Context(), a, func(ctx context.Context, node *run.Node) []string { return read(ctx, a, node, given) }), word), cobra.ShellCompDirectiveNoFileComp
	}
}

// readWithLimit calls read with a node that prints nothing; read must return within
// completeWithin.
func readWithLimit(ctx context.Context, a *cli.App, read func(context.Context, *run.Node) []string) []string {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	done := make(chan []string, 1)
	go func() {
		settings, _, err := a.Settings.Settings()
		if err != nil {
			done <- nil
			return
		}
		if a.Namespace == "" {
			a.Namespace = settings.Namespace
		}
		done <- read(ctx, &run.Node{Settings: settings})
	}()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
		return nil
	}
}

// podCompleter offers names of pods, with the prefix pod/ if the user typed it. For the
// command logs, it offers the containers of a pod that is already named.
func podCompleter(a *cli.App, path string, several bool) completer {
	return func(c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
		named, workload := given, ""
		if len(named) > 0 && (grammar.IsPodType(named[0]) || apikind.WorkloadKind(named[0]) != "" || path == "top" && inspect.IsContainerType(named[0])) {
			workload = apikind.WorkloadKind(named[0])
			named = named[1:]
		}
		objects := path == "get" || path == "describe" || path == "delete"
		switch {
		case objects && len(given) > 0 && apikind.Of(given[0]) != nil && workload == "":
			return withPrefix(readWithLimit(c.Context(), a, func(_ context.Context, node *run.Node) []string {
				names, _ := objectWords(a, node, given[0])
				return names
			}), word), cobra.ShellCompDirectiveNoFileComp
		case path == "set image" && len(named) > 0:
			found := withPrefix(readWithLimit(c.Context(), a, func(ctx context.Context, node *run.Node) []string { return containerImages(ctx, a, node, given) }), word)
			return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		case path == "logs" && len(named) == 1:
			return completerOf(a, containerWords)(c, given, word)
		case !several && len(named) > 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		prefix := ""
		if kind, _, ok := strings.Cut(word, "/"); ok && (grammar.IsPodType(kind) || apikind.WorkloadKind(kind) != "") {
			prefix, workload = kind+"/", apikind.WorkloadKind(kind)
		}
		var names []string
		if objects && len(given) == 0 && word != "" {
			names = append(names, completedTypes...)
		}
		for _, name := range readWithLimit(c.Context(), a, func(_ context.Context, node *run.Node) []string { return podWords(a, node, workload) }) {
			if !slices.Contains(named, prefix+name) {
				names = append(names, prefix+name)
			}
		}
		return withPrefix(names, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// podWords returns the names of pods. Unless workload is empty, an object of this kind must define the pod.
func podWords(a *cli.App, node *run.Node, workload string) []string {
	var out []string
	for _, p := range cli.StoredPods(node, a.NamespaceOrDefault("default")) {
		if _, err := (lookup.Ref{Kind: workload, Name: p.Name}).Resolve(node.Layout(), p.Namespace); err == nil {
			out = append(out, p.Name)
		}
	}
	return out
}

func namespaceWords(_ context.Context, a *cli.App, node *run.Node, _ []string) []string {
	var out []string
	for _, p := range cli.StoredPods(node, "") {
		out = append(out, p.Namespace)
	}
	return out
}

// containerWords returns the containers of the pod on the command line.
func containerWords(_ context.Context, a *cli.App, node *run.Node, given []string) (out []string) {
	pod := storedPod(a, node, given)
	if pod == nil {
		return nil
	}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers, view.Ephemeral(pod)) {
		out = append(out, c.Name)
	}
	return out
}

// imageWords returns the names of the runtime's images.
func imageWords(ctx context.Context, a *cli.App, node *run.Node, given []string) []string {
	client, err := a.Dial(ctx, &cli.Renderer{W: io.Discard}, &node.Settings, ownruntime.Looks)
	if err != nil {
		return nil
	}
	defer client.Close()
	node.Client = client
	images, err := imagestore.List(ctx, node)
	if err != nil {
		return nil
	}
	var out []string
	for _, i := range images {
		for _, name := range i.Names {
			if !slices.Contains(given, name) {
				out = append(out, view.OneLine(name))
			}
		}
	}
	return out
}

// withPrefix returns the distinct words that begin with typed, sorted.
func withPrefix(all []string, typed string) []string {
	var out []string
	for _, w := range all {
		if strings.HasPrefix(w, typed) {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
