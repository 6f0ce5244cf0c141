package inspect

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/fielddoc"
	"github.com/podrun/podrun/internal/problem"
)

// NewExplain returns the command explain.
func NewExplain(a *cli.App) *cobra.Command {
	recursive := false
	c := &cobra.Command{
		Use:   "explain KIND[.FIELD...]",
		Short: "Print the documentation of the fields of a manifest",
		Long: `Print the documentation of a kind or of one of its fields, as 'kubectl explain'
does. For each field, explain also prints whether podrun supports it: supported,
refused, warned, no effect or left out (docs/pod-fields.md describes these words).
explain does not require a cluster. It prints the documentation of Kubernetes ` + kubernetesMinor + `.`,
		Example: `  podrun explain pod
  podrun explain pod.spec.containers.lifecycle
  podrun explain pod.spec.volumes --recursive`,
		Args: grammar.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error { return explain(a, given[0], recursive) },
	}
	c.Flags().BoolVar(&recursive, "recursive", false, "print all nested fields, without descriptions")
	return c
}

// kubernetesMinor is the version of the API's types.
const kubernetesMinor = "v1.36"

func explain(a *cli.App, path string, recursive bool) error {
	f, err := FindField(path)
	if err != nil {
		return err
	}
	if recursive {
		return fielddoc.PrintAll(a.Streams.Out, f)
	}
	return fielddoc.Print(a.Streams.Out, f)
}

// FindField returns the field at a path such as pod.spec.containers. The kind may include
// its group: deployments.apps.spec.
func FindField(path string) (fielddoc.Field, error) {
	names := strings.Split(strings.Trim(path, "."), ".")
	kind := fielddoc.Find(names[0])
	if kind == nil {
		return fielddoc.Field{}, unknownKind(names[0])
	}
	names = names[1:]
	if group := strings.Split(kind.Group, "."); kind.Group != "" && len(names) >= len(group) && strings.Join(names[:len(group)], ".") == kind.Group {
		names = names[len(group):]
	}
	f, err := fielddoc.Lookup(kind, names)
	if unknown, ok := errors.AsType[*fielddoc.UnknownError](err); ok {
		hint := "see 'podrun explain " + unknown.Parent + "'"
		if like := closestField(unknown); like != "" {
			err = fmt.Errorf("%w (did you mean %s?)", err, like)
		}
		return f, &problem.Error{Kind: problem.Usage, Err: err, Hint: hint}
	}
	return f, err
}

// closestField returns the known field that the user probably meant, or "" unless there is
// exactly one candidate.
func closestField(e *fielddoc.UnknownError) string {
	for _, known := range e.Known {
		if strings.EqualFold(known, e.Field) || known == e.Field+"s" || known+"s" == e.Field {
			return known
		}
	}
	return grammar.ClosestName(e.Field, e.Known)
}

// unknownKind returns the error for a kind that podrun does not read.
func unknownKind(name string) error {
	var all, words []string
	for _, k := range fielddoc.Kinds {
		all, words = append(all, k.Names[1]), append(words, k.Names[:2]...)
	}
	err := fmt.Errorf("podrun does not support the kind %q", name)
	if like := grammar.ClosestName(strings.ToLower(name), words); like != "" {
		err = fmt.Errorf("%w (did you mean %s?)", err, like)
	}
	return &problem.Error{Kind: problem.Usage, Err: err, Hint: "supported kinds: " + strings.Join(all, ", ")}
}
