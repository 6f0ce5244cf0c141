package inside

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

type cpFlags struct {
	container  string
	noPreserve bool
}

// NewCp returns the command cp.
func NewCp(a *cli.App) *cobra.Command {
	f := &cpFlags{}
	c := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files into and out of a container",
		Long: `Copy a file or directory between this host and a container, as 'kubectl cp' does.

One of SRC and DST is POD:PATH or NAMESPACE/POD:PATH. If DST is an existing
directory, podrun copies into it. If the path on this host is -, podrun reads a tar
archive from standard input or writes one to standard output.

The container's image must contain tar. When podrun copies from a container, it never
writes outside DST. If SRC itself is a symbolic link, such as a key of a mounted
ConfigMap, podrun follows the link; it skips symbolic links inside a directory, with a
warning. If a path on this host contains a colon, write it as ./PATH.`,
		Example: `  podrun cp web:/var/log/app ./logs
  podrun cp ./site web:/usr/share/nginx/html
  podrun cp web:/data - | tar tf -`,
		Args: grammar.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, given []string) error { return runCp(a, c, f, given[0], given[1]) },
	}
	c.Flags().StringVarP(&f.container, "container", "c", "", "the `container` to copy from or to")
	c.Flags().BoolVar(&f.noPreserve, "no-preserve", false, "do not preserve the owner and permissions of files copied into the container")
	return c
}

// PodPath is a path in a pod, or on this host if pod has no name.
type PodPath struct {
	Namespace string
	Pod       lookup.Ref
	path      string
}

// Remote reports whether the path is in a pod.
func (p PodPath) Remote() bool { return p.Pod.Name != "" }

// ParsePodPath parses [[NAMESPACE/]POD:]PATH.
func ParsePodPath(spec string) (PodPath, error) {
	pod, path, ok := strings.Cut(spec, ":")
	if !ok || strings.HasPrefix(spec, ".") || strings.HasPrefix(spec, "/") {
		return PodPath{path: spec}, nil
	}
	p := PodPath{path: path}
	if namespace, name, ok := strings.Cut(pod, "/"); ok && !grammar.IsPodType(namespace) && apikind.WorkloadKind(namespace) == "" {
		p.Namespace, pod = namespace, name
	}
	ref, err := grammar.PodRef(pod)
	if err != nil {
		return p, err
	}
	if p.Pod = ref; path == "" {
		return p, fmt.Errorf("%q is not POD:PATH", spec)
	}
	return p, nil
}

func runCp(a *cli.App, c *cobra.Command, f *cpFlags, src, dst string) error {
	from, err := ParsePodPath(src)
	if err != nil {
		return grammar.Usage(c, err)
	}
	to, err := ParsePodPath(dst)
	if err != nil {
		return grammar.Usage(c, err)
	}
	remote := from
	switch {
	case from.Remote() && to.Remote():
		return problem.UsageError(errors.New("one of SRC and DST must be on this host"), "use a pipe: 'podrun cp "+shellword.Quote(src)+" - | podrun cp - "+shellword.Quote(to.Pod.Name)+":"+shellword.Quote(path.Dir(to.path))+"'")
	case !from.Remote() && !to.Remote():
		return problem.UsageError(errors.New("neither SRC nor DST is in a pod"), "name the pod: 'podrun cp "+shellword.Quote(src)+" POD:"+shellword.Quote(dst)+"' or 'podrun cp POD:"+shellword.Quote(src)+" "+shellword.Quote(dst)+"'")
	case to.Remote():
		remote = to
	}
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: a.Streams.Err}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	namespace := remote.Namespace
	if namespace == "" {
		namespace = a.NamespaceOrDefault("default")
	}
	name, err := remote.Pod.Resolve(node.Layout(), namespace)
	if err != nil {
		return err
	}
	target, err := execTarget(c.Context(), a, node, namespace, name, f.container, a.Streams.Err)
	if err != nil {
		return err
	}
	o := access.CopyOptions{NoPreserve: f.noPreserve, Warn: func(text string) { fmt.Fprintln(a.Streams.Err, "warning:", view.OneLine(text)) }}
	if from.Remote() {
		var archive io.Writer
		if to.path == "-" {
			archive = a.Raw.Out
		}
		return access.CopyFrom(c.Context(), node, target, from.path, to.path, archive, o)
	}
	var archive io.Reader
	if from.path == "-" {
		archive = a.Raw.In
	}
	return access.CopyTo(c.Context(), node, target, from.path, to.path, archive, o)
}
