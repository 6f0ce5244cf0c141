package complete

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/inside"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
)

// TranslateRequest is translate for a shell's completion request: it converts the words before the
// word to complete. A command line that cannot be converted stays as it is, and has no completions.
func TranslateRequest(root *cobra.Command, args []string) []string {
	if len(args) < 3 || !IsCompletionRequest(args[0]) {
		return args
	}
	last := len(args) - 1
	words, err := grammar.Translate(root, args[1:last])
	if err != nil {
		return args
	}
	return slices.Concat(args[:1], words, args[last:])
}

// completeCopy offers the arguments that kubectl cp offers: paths on this host, and pods
// followed by a colon. It does not offer files in containers, because listing them takes longer
// than completeWithin.
func completeCopy(a *cli.App, c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	remote := false // the other argument is in a pod
	if len(given) == 1 {
		p, err := inside.ParsePodPath(given[0])
		remote = err == nil && p.Remote()
	}
	switch {
	case len(given) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case remote || strings.IndexAny(word, "/.~") == 0:
		return nil, cobra.ShellCompDirectiveDefault
	case strings.Contains(word, ":"):
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found := readWithLimit(c.Context(), a, func(_ context.Context, node *run.Node) []string { return podPrefixes(a, node, word) })
	found = withPrefix(found, word)
	switch {
	case len(found) == 0 && len(given) == 0:
		return nil, cobra.ShellCompDirectiveDefault // the shell offers files
	case word == "" && len(given) == 0:
		found = append(found, "./", "/")
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// podPrefixes returns NAME: for each pod, with the prefix pod/ or NAMESPACE/ if the word has
// it.
func podPrefixes(a *cli.App, node *run.Node, word string) []string {
	namespace, prefix := a.NamespaceOrDefault("default"), ""
	if before, _, ok := strings.Cut(word, "/"); ok {
		prefix = before + "/"
		if !grammar.IsPodType(before) {
			namespace = before
		}
	}
	var out []string
	for _, p := range cli.StoredPods(node, namespace) {
		out = append(out, prefix+p.Name+":")
	}
	return out
}

// copyContainerWords returns the containers of the pod that an argument of cp names.
func copyContainerWords(ctx context.Context, a *cli.App, node *run.Node, given []string) []string {
	for _, spec := range given {
		if p, err := inside.ParsePodPath(spec); err == nil && p.Remote() {
			if p.Namespace != "" {
				a.Namespace = p.Namespace
			}
			return containerWords(ctx, a, node, []string{p.Pod.Name})
		}
	}
	return nil
}

// completeForward completes the arguments of port-forward: a pod, then its ports by number
// and name, including after "LOCAL:".
func completeForward(a *cli.App, c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	named := given
	if len(named) > 0 && grammar.IsPodType(named[0]) {
		named = named[1:]
	}
	if len(named) == 0 {
		return podCompleter(a, "port-forward", false)(c, given, word)
	}
	prefix := ""
	if local, _, ok := strings.Cut(word, ":"); ok {
		prefix = local + ":"
	}
	read := func(_ context.Context, node *run.Node) (out []string) {
		for _, port := range servicePortWords(a, node, named[0]) {
			out = append(out, prefix+port)
		}
		if pod := storedPod(a, node, named[:1]); pod != nil {
			for _, port := range containerPorts(pod) {
				out = append(out, prefix+port)
			}
		}
		return out
	}
	return withPrefix(readWithLimit(c.Context(), a, read), word), cobra.ShellCompDirectiveNoFileComp
}

// storedPod returns the pod that the arguments name, from its checkpoint, or nil.
func storedPod(a *cli.App, node *run.Node, given []string) *corev1.Pod {
	refs, err := grammar.PodRefs(given, true)
	if err != nil || len(refs) == 0 {
		return nil
	}
	for _, p := range cli.StoredPods(node, a.NamespaceOrDefault("default")) {
		if p.Name == refs[0].Name {
			return lookup.StoredPod(node, p)
		}
	}
	return nil
}

// containerPorts returns the numbers and names of a pod's TCP ports.
func containerPorts(pod *corev1.Pod) (out []string) {
	for _, c := range lifecycle.SpecContainers(pod) {
		for _, port := range c.Container.Ports {
			if port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
				continue
			}
			out = append(out, strconv.Itoa(int(port.ContainerPort)))
			if port.Name != "" {
				out = append(out, port.Name)
			}
		}
	}
	return out
}
