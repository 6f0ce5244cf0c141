package grammar

import (
	"slices"
	"strings"
)

// withDash inserts -- between the pod and the command of exec, because docker exec works
// without it. All arguments after the command belong to the command. At is the index of the word exec.
func (a arguments) withDash(args []string, at int) []string {
	if slices.Contains(args, "--") {
		return args
	}
	words := a.words(args[at+1:], 3)
	if len(words) > 0 && IsPodType(args[at+1+words[0]]) {
		words = words[1:]
	}
	if len(words) < 2 {
		return args
	}
	return slices.Insert(slices.Clone(args), at+1+words[1], "--")
}

// imageWithDash inserts -- between the image and the command of run IMAGE, because the arguments after an
// image belong to the container. Before the word run, it replaces -v with --verbose. Before the image, it
// replaces -h NAME with --hostname. At is the index of the word run.
func (a arguments) imageWithDash(args []string, at int) []string {
	args = slices.Clone(args)
	for i, arg := range args[:at] {
		if arg == "-v" {
			args[i] = "--verbose"
		}
	}
	words := a.words(args[at+1:], 2)
	// A host name and an image follow. Otherwise -h prints the help.
	if len(words) == 2 && words[0] > 0 && args[at+words[0]] == "-h" {
		args[at+words[0]] = "--hostname"
		words = words[1:]
	}
	if len(words) == 0 {
		return args
	}
	image := at + 1 + words[0]
	kubectl := func(arg string) bool { return arg == "--image" || strings.HasPrefix(arg, "--image=") }
	isInput := func(arg string) bool {
		return kubectl(arg) || strings.HasPrefix(arg, "-f") || strings.HasPrefix(arg, "-k") || strings.HasPrefix(arg, "--filename") || strings.HasPrefix(arg, "--kustomize")
	}
	dash := slices.Index(args, "--")
	if slices.ContainsFunc(args[at+1:image], isInput) || slices.ContainsFunc(args[image:], kubectl) || dash >= 0 && dash <= image+1 || NamesManifest(args[image]) {
		return args
	}
	return slices.Insert(args, image+1, "--")
}
