package change

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/change"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
)

// changeNote is the part of the help that all commands that change pods have in common.
const changeNote = `
podrun changes the applied definition, and applies the result as 'podrun apply' does:
it updates the pod in place if the API allows the change, and recreates the pod
otherwise. The manifest file does not change. To undo the change, apply that file again,
or run 'podrun rollout undo'.

If the file is in a directory of 'podrun serve', serve applies it again when the pod's
definition in the file changes, but not when only other objects, such as a ConfigMap,
change.`

// NewSet returns `podrun set`.
func NewSet(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "set",
		Short: "Change the image, the environment or the resources of pods",
		Long:  "Change the image, the environment or the resources of the containers of pods.\n" + changeNote,
		Args:  grammar.Args(grammar.KnownCommand),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newSetImage(a), newSetEnv(a), newSetResources(a))
	return c
}

// runSet changes the selected pods with a pure function.
func runSet(a *cli.App, c *cobra.Command, f *changeFlags, given []string, done string, set func(*corev1.Pod) (*corev1.Pod, error)) error {
	return runChange(a, c, f, given, "", run.ChangeInput{Define: func(now run.Current) (run.Redefinition, error) {
		changed, err := set(now.Pod)
		if err != nil {
			return run.Redefinition{}, err
		}
		return run.Redefined(changed, done)
	}})
}

func newSetImage(a *cli.App) *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "image POD... CONTAINER=IMAGE...",
		Short: "Change images of containers",
		Long: `Change the images of containers and init containers; CONTAINER may be * for all.
podrun pulls the new images first: an image that does not exist does not cause downtime.
` + changeNote,
		Example: `  podrun set image web app=nginx:1.27
  podrun set image --all '*=nginx:1.27'`,
		RunE: func(c *cobra.Command, given []string) error {
			names, changes, err := change.Split(given, "image")
			var images change.Pairs
			if err == nil {
				images, err = change.ParsePairs(changes, "image")
			}
			switch {
			case err == nil && len(images.Remove) > 0:
				err = fmt.Errorf("invalid image format: %s-", images.Remove[0])
			case err == nil && len(images.Set) > 1 && slices.ContainsFunc(images.Set, func(p change.Pair) bool { return p.Key == change.AllContainers }):
				err = errors.New("all containers are already specified by *, but saw more than one container_name=container_image pairs")
			}
			if err != nil {
				return grammar.Usage(c, err)
			}
			if len(images.Set) == 0 {
				return problem.UsageError(errors.New("at least one image update is required"), "write CONTAINER=IMAGE after the pod: '"+c.CommandPath()+" POD CONTAINER=IMAGE'")
			}
			return runSet(a, c, f, names, "image updated", func(pod *corev1.Pod) (*corev1.Pod, error) { return change.Images(pod, images.Set) })
		},
	}
	f.add(a, c)
	return c
}

type setEnvFlags struct {
	changeFlags
	change.Env
	params []string
	from   string
	prefix string
	keys   []string
	list   bool
}

func newSetEnv(a *cli.App) *cobra.Command {
	f := &setEnvFlags{}
	c := &cobra.Command{
		Use:   "env POD... NAME=VALUE... | NAME-...",
		Short: "Change environment variables of containers",
		Long: `Set environment variables with NAME=VALUE, and remove them with NAME-, in all containers and init containers, or in the ones that --containers selects. --from adds a variable
for each key of a ConfigMap or Secret; --list prints the environment.
` + changeNote,
		Example: `  podrun set env web LEVEL=debug OLD-
  podrun set env web --from=configmap/app --prefix=APP_
  podrun set env web --list`,
		RunE: func(c *cobra.Command, given []string) error { return runSetEnv(a, c, f, given) },
	}
	f.add(a, c)
	c.Flags().StringVarP(&f.Containers, "containers", "c", change.AllContainers, "`name` of the containers, which may contain *")
	c.Flags().StringArrayVarP(&f.params, "env", "e", nil, "`NAME=VALUE`, NAME-, or - to read NAME=VALUE lines from standard input; repeatable")
	c.Flags().StringVar(&f.from, "from", "", "configmap/NAME or secret/NAME that the pod refers to, or that is in a file of --configmap or --secret")
	c.Flags().StringVar(&f.prefix, "prefix", "", "prefix of the names of the variables")
	c.Flags().StringSliceVar(&f.keys, "keys", nil, "with --from: only these keys")
	c.Flags().BoolVar(&f.list, "list", false, "print the environment of the containers")
	c.Flags().BoolVar(&f.Overwrite, "overwrite", true, "also change variables that exist; if false, they cause an error")
	return c
}

func runSetEnv(a *cli.App, c *cobra.Command, f *setEnvFlags, given []string) error {
	names, changes, err := change.Split(given, "environment variable")
	if err != nil {
		return grammar.Usage(c, err)
	}
	if names, err = f.parse(a, c, names, changes); err != nil {
		return err
	}
	if f.list && f.Empty() && f.from == "" {
		return listPods(a, c, &f.changeFlags, names, func(pod *corev1.Pod) ([]string, error) { return f.Listed(pod) })
	}
	// As in kubectl, --list together with changes shows the result of the changes and does not apply it.
	if f.list {
		return listPods(a, c, &f.changeFlags, names, func(pod *corev1.Pod) ([]string, error) {
			changed, err := f.Change(pod)
			if err != nil {
				return nil, err
			}
			return f.Listed(changed)
		})
	}
	return runChange(a, c, &f.changeFlags, names, "", run.ChangeInput{Define: func(now run.Current) (run.Redefinition, error) {
		env, err := f.withObject(now)
		if err != nil {
			return run.Redefinition{}, err
		}
		changed, err := env.Change(now.Pod)
		if err != nil {
			return run.Redefinition{}, err
		}
		return run.Redefined(changed, "env updated")
	}})
}

// parse parses the changes, and returns the names of the pods.
func (f *setEnvFlags) parse(a *cli.App, c *cobra.Command, names, changes []string) ([]string, error) {
	all := append(append([]string(nil), f.params...), changes...)
	if at := slices.Index(names, "-"); at >= 0 { // podrun set env web - < FILE
		names = slices.Delete(slices.Clone(names), at, at+1)
		all = append(all, "-")
	}
	for _, text := range all {
		if text != "-" {
			continue
		}
		input, err := input.Read(c.Context(), []string{"-"}, input.ReadOptions{Stdin: a.Streams.In})
		if err != nil {
			return nil, err
		}
		f.AddLines(string(input[0].Data))
	}
	if err := f.Add(slices.DeleteFunc(all, func(text string) bool { return text == "-" })); err != nil {
		return nil, grammar.Usage(c, err)
	}
	switch {
	case len(f.keys) > 0 && f.from == "":
		return nil, grammar.Usage(c, errors.New("when specifying --keys, a configmap or secret must be provided with --from"))
	case f.list && a.Output != "":
		return nil, grammar.Usage(c, errors.New("--list and --output may not be specified together"))
	case f.list && f.from != "":
		return nil, problem.UsageError(errors.New("--list and --from cannot be used together"), "use --dry-run=client -o yaml to see the result")
	case f.Empty() && f.from == "" && !f.list:
		return nil, problem.UsageError(errors.New("at least one environment variable must be provided"), "write NAME=VALUE after the pod, or NAME- to remove a variable")
	}
	f.Prefix(f.prefix)
	return names, nil
}

// withObject returns the changes, including those of --from.
func (f *setEnvFlags) withObject(now run.Current) (change.Env, error) {
	env := f.Env
	if f.from == "" {
		return env, nil
	}
	kind, name, ok := strings.Cut(f.from, "/")
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	if !ok || name == "" {
		return env, problem.UsageError(fmt.Errorf("--from=%s is not of the form configmap/NAME or secret/NAME", f.from), "use --from=configmap/NAME")
	}
	key := now.Pod.Namespace + "/" + name
	from := change.Env{}
	switch {
	case slices.Contains([]string{"configmap", "configmaps", "cm"}, kind):
		if m := now.Objects.ConfigMaps[key]; m != nil {
			keys, source := change.ConfigMapKeys(m)
			from.AddKeys(keys, f.keys, source)
		}
		kind = "configmap"
	case slices.Contains([]string{"secret", "secrets"}, kind):
		if s := now.Objects.Secrets[key]; s != nil {
			keys, source := change.SecretKeys(s)
			from.AddKeys(keys, f.keys, source)
		}
		kind = "secret"
	default:
		return env, problem.UsageError(fmt.Errorf("--from=%s: only configmap/NAME and secret/NAME are supported", f.from), "use --from=configmap/NAME")
	}
	if from.Empty() {
		return env, &problem.Error{
			Kind:   problem.Failed,
			Object: kind + "/" + name,
			Err:    errors.New("the pod does not refer to this object, or the object has none of the keys"),
			Hint:   "name its file with --" + kind + "=FILE",
		}
	}
	from.Prefix(f.prefix)
	env.Set = append(slices.Clone(env.Set), from.Set...)
	return env, nil
}

func newSetResources(a *cli.App) *cobra.Command {
	f := &changeFlags{}
	var r change.Resources
	limits, requests := "", ""
	c := &cobra.Command{
		Use:   "resources POD... --limits=LIST --requests=LIST",
		Short: "Change requests and limits of containers",
		Long: `Change requests and limits of containers and init containers. podrun resizes CPU
and memory in place where that is possible, as the kubelet does; other changes
recreate the pod. Resources that the flags do not name keep their values.
` + changeNote,
		Example: `  podrun set resources web --limits=cpu=500m,memory=256Mi
  podrun set resources web -c app --requests=memory=64Mi`,
		RunE: func(c *cobra.Command, given []string) error {
			var err, err2 error
			r.Limits, err = change.ParseResources("limits", limits)
			r.Requests, err2 = change.ParseResources("requests", requests)
			if err := errors.Join(err, err2); err != nil {
				return grammar.Usage(c, err)
			}
			if len(r.Limits)+len(r.Requests) == 0 {
				return problem.UsageError(errors.New("you must specify an update to requests or limits (in the form of --requests/--limits)"), "write --limits=cpu=500m,memory=256Mi")
			}
			return runSet(a, c, f, given, "resource requirements updated", r.Change)
		},
	}
	f.add(a, c)
	c.Flags().StringVarP(&r.Containers, "containers", "c", change.AllContainers, "`name` of the containers, which may contain *")
	c.Flags().StringVar(&limits, "limits", "", "limits: a `list` such as cpu=100m,memory=256Mi")
	c.Flags().StringVar(&requests, "requests", "", "requests: a `list` such as cpu=100m,memory=256Mi")
	return c
}

// NewLabel returns `podrun label`, and NewAnnotate `podrun annotate`.
func NewLabel(a *cli.App) *cobra.Command {
	return newMetadata(a, metadata{
		what: "label", listed: func(pod *corev1.Pod) map[string]string { return pod.Labels },
		change: change.Labels, check: change.CheckLabels,
		done: func(d change.Difference) string {
			switch {
			case d.Set && d.Removed:
				return "modified"
			case d.Removed:
				return "unlabeled"
			}
			return "labeled"
		},
		none: "not labeled",
		example: `  podrun label web tier=front
  podrun label web tier=back --overwrite
  podrun label web tier-`,
	})
}

// NewAnnotate returns the command annotate.
func NewAnnotate(a *cli.App) *cobra.Command {
	return newMetadata(a, metadata{
		what: "annotation", verb: "annotate", listed: func(pod *corev1.Pod) map[string]string { return pod.Annotations },
		change: change.Annotations, check: func(change.Pairs) error { return nil },
		done: func(change.Difference) string { return "annotated" }, none: "annotated",
		example: `  podrun annotate web owner=ops
  podrun annotate web kubernetes.io/change-cause='new image'`,
	})
}

// metadata contains what differs between the commands label and annotate.
type metadata struct {
	what, verb string
	listed     func(*corev1.Pod) map[string]string
	change     func(*corev1.Pod, change.Pairs, bool) (*corev1.Pod, change.Difference, error)
	check      func(change.Pairs) error
	done       func(change.Difference) string
	none       string
	example    string
}

func newMetadata(a *cli.App, m metadata) *cobra.Command {
	f := &changeFlags{}
	list, overwrite := false, false
	if m.verb == "" {
		m.verb = m.what
	}
	c := &cobra.Command{
		Use:   m.verb + " POD... KEY=VALUE... | KEY-...",
		Short: "Set and remove " + m.what + "s of pods",
		Long: "Set " + m.what + "s with KEY=VALUE, and remove them with KEY-. Containers are not restarted, and\na pod that has ended or was stopped stays as it is. --list prints the " + m.what + `s.

podrun changes the definition that was applied, not the manifest file: applying
the file again undoes the change. 'podrun serve' applies the file again only when
the pod's definition in the file changes.`,
		Example: m.example,
		RunE: func(c *cobra.Command, given []string) error {
			names, changes, err := change.Split(given, m.what)
			var pairs change.Pairs
			if err == nil {
				pairs, err = change.ParsePairs(changes, m.what)
			}
			if err == nil {
				err = m.check(pairs)
			}
			if err == nil && list && a.Output != "" {
				err = errors.New("--list and --output may not be specified together")
			}
			if err != nil {
				return grammar.Usage(c, err)
			}
			if list {
				return listPods(a, c, f, names, func(pod *corev1.Pod) ([]string, error) {
					return change.ListedPairs(m.listed(pod)), nil
				})
			}
			if len(changes) == 0 {
				return problem.UsageError(fmt.Errorf("at least one %s update is required", m.what), "write KEY=VALUE after the pod, or KEY- to remove one")
			}
			return runChange(a, c, f, names, m.none, run.ChangeInput{DefineOnly: true, Define: m.define(pairs, overwrite)})
		},
	}
	f.addBasic(a, c)
	c.Flags().BoolVar(&list, "list", false, "print the "+m.what+"s")
	c.Flags().BoolVar(&overwrite, "overwrite", false, "change the values of existing "+m.what+"s")
	return c
}

// define returns the change of labels or annotations.
func (m metadata) define(pairs change.Pairs, overwrite bool) run.Define {
	return func(now run.Current) (next run.Redefinition, err error) {
		changed, d, err := m.change(now.Pod, pairs, overwrite)
		if err != nil {
			return next, err
		}
		if d.Set || d.Removed {
			next, err = run.Redefined(changed, m.done(d))
		}
		for _, missing := range d.Missing {
			if m.what == "label" {
				next.Notes = append(next.Notes, fmt.Sprintf("label %q not found.", missing))
			}
		}
		return next, err
	}
}
