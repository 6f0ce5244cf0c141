package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
)

// inputFlags are the flags of commands that read manifests.
type inputFlags struct {
	grammar.ObjectFlags
	files         []string
	kustomize     string // a directory
	validate      string
	ignoreKinds   bool
	skipKinds     []string
	restartPolicy string
	toCompletion  bool // pods run to completion
	strictCluster bool
	relativePaths bool
	services      bool // the command reads Services
	// continueOnError makes load skip invalid files and set invalid. allowEmpty makes it accept an
	// input without pods, and allowReferred one with only ConfigMaps and Secrets.
	continueOnError, allowEmpty, allowReferred bool
	invalid                                    error
	// generated is the object that the command line defines instead of files.
	generated *input.Source
	// newHint is the hint of the error for a pod that exists already. If it is empty, pods may exist.
	newHint string
	// notes are warnings about the command line.
	notes problem.List
	// env and images change the pods (manifest.Options).
	env    []corev1.EnvVar
	images map[string]string
}

func (f *inputFlags) add(set *pflag.FlagSet) {
	set.StringArrayVarP(&f.files, "filename", "f", nil, "`file`, directory, - for stdin, or https URL to read; repeatable")
	set.StringVarP(&f.kustomize, "kustomize", "k", "", "`directory` of a kustomization to build and read")
	f.ObjectFlags.Add(set)
	set.StringVar(&f.validate, "validate", string(manifest.Strict), "how to handle unknown and duplicate fields: strict, warn or ignore")
	set.StringSliceVar(&f.skipKinds, "skip-kinds", nil, "skip objects of these `kinds` (NetworkPolicy,Certificate), or all custom resources (custom); Ingress, RBAC and similar kinds are always skipped")
	set.BoolVar(&f.ignoreKinds, "ignore-unknown-kinds", false, "skip objects of all kinds that podrun does not use, except those that restrict pods")
	set.BoolVar(&f.relativePaths, "relative-host-paths", false, "resolve relative hostPaths against the directory of the manifest")
	set.BoolVar(&f.strictCluster, "strict-cluster-fields", false, "refuse pods with fields that only a cluster supports, instead of dropping the fields")
}

// hasFiles reports whether -f or -k names manifests.
func (f *inputFlags) hasFiles() bool { return len(f.files) > 0 || f.kustomize != "" }

// loadWithin is load with an error that explains the end of the command's time limit: a FIFO or a
// server may never send EOF.
func (f *inputFlags) loadWithin(a *app, c *cobra.Command, named []string, warn func(problem.List)) (*manifest.Objects, error) {
	limit := a.deadline.limit
	if limit <= 0 {
		return f.load(c.Context(), a, c, named, warn)
	}
	late := &problem.Error{Kind: problem.Deadline,
		Err: fmt.Errorf("the input did not end within --timeout=%s", limit), Hint: "check the program that writes it, or increase --timeout"}
	ctx, cancel := context.WithTimeoutCause(a.deadline.unlimited, limit-time.Since(a.began), late)
	defer cancel()
	// The recorder is in the command's context.
	defer trace.Begin(c.Context(), "read manifests", "")()
	objects, err := f.load(ctx, a, c, named, warn)
	if err == nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // the process was suspended, or a signal arrived
	}
	return objects, err
}

// load reads and validates the manifests on the command line.
func (f *inputFlags) load(ctx context.Context, a *app, c *cobra.Command, named []string, warn func(problem.List)) (*manifest.Objects, error) {
	names := append(append([]string(nil), f.files...), named...)
	if len(names) == 0 && f.kustomize == "" && f.generated == nil {
		if !isRedirected(a.streams.In) {
			return nil, problem.UsageError(errors.New("specify a file"), "use '"+c.CommandPath()+" FILE', or '-' for standard input: 'kubectl kustomize DIR | "+c.CommandPath()+" -'")
		}
		names = []string{"-"}
	}
	switch manifest.Validate(f.validate) {
	case manifest.Strict, manifest.Warn, manifest.Ignore:
	case "true": // as in kubectl
		f.validate = string(manifest.Strict)
	case "false":
		f.validate = string(manifest.Ignore)
	default:
		return nil, problem.UsageError(fmt.Errorf("--validate=%s is not one of strict, warn, ignore", f.validate), "--validate=ignore drops unknown fields silently, --validate=warn with a warning")
	}
	settings, _, err := a.settings.Settings()
	if err != nil {
		return nil, err
	}
	warn(manifest.SetGates(settings.FeatureGates))
	warn(f.notes)
	sources, err := f.read(ctx, a, slices.Concat(expandFiles(names), f.ConfigMaps, f.Secrets))
	if err != nil && (!f.continueOnError || len(sources) == 0) {
		return nil, err
	}
	f.invalid = err
	dir := ""
	if f.relativePaths {
		if dir, err = os.Getwd(); err != nil {
			return nil, &problem.Error{Kind: problem.Usage, Object: "--relative-host-paths", Err: err}
		}
	}
	objects, err := f.parse(a, settings, sources, dir, warn)
	if err != nil {
		return nil, err
	}
	return objects, f.AddClaims(c, objects, settings.Claims)
}

// isRedirected reports whether standard input is a file, as in podrun apply < FILE. Without the
// argument -, podrun does not read a pipe: a script may have a pipe as its standard input that
// never reaches its end.
func isRedirected(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// expandFiles converts lists (a.yaml,b.yaml) and quoted patterns (*.yaml) like kubectl. It
// does not change an argument that is the path of an existing file, even if the path contains a
// comma or a pattern.
func expandFiles(names []string) (out []string) {
	for _, name := range names {
		if _, err := os.Stat(name); err == nil || strings.Contains(name, "://") {
			out = append(out, name)
			continue
		}
		for part := range strings.SplitSeq(name, ",") {
			if matches, err := filepath.Glob(part); err == nil && len(matches) > 0 {
				out = append(out, matches...)
			} else {
				out = append(out, part)
			}
		}
	}
	return out
}

// read reads the named files and the kustomization. If it returns an error, it also
// returns the sources that could be read.
func (f *inputFlags) read(ctx context.Context, a *app, names []string) ([]input.Source, error) {
	var sources []input.Source
	var failed error
	if f.generated != nil {
		sources = append(sources, *f.generated)
	}
	if len(names) > 0 {
		var files []input.Source
		files, failed = input.Read(ctx, names, input.ReadOptions{Stdin: a.streams.In, EmptyDirs: f.allowEmpty})
		sources = append(sources, files...)
	}
	if f.kustomize != "" {
		built, err := input.ReadKustomization(ctx, f.kustomize)
		if err == nil {
			sources = append(sources, built)
		}
		failed = errors.Join(failed, err)
	}
	return sources, failed
}

// parse validates the sources. With continueOnError it omits files with errors; only if no file
// remains does it return their errors.
func (f *inputFlags) parse(a *app, settings nodeconfig.Settings, sources []input.Source, dir string, warn func(problem.List)) (*manifest.Objects, error) {
	for {
		objects, problems := manifest.Load(sources, manifest.Options{
			Namespace:           a.namespace,
			Validate:            manifest.Validate(f.validate),
			SkipKinds:           f.skipKinds,
			IgnoreUnknownKinds:  f.ignoreKinds,
			Services:            f.services,
			StrictClusterFields: f.strictCluster,
			WorkingDir:          dir,
			Suffix:              run.RandomSuffix,
			RestartPolicy:       corev1.RestartPolicy(f.restartPolicy),
			ToEnd:               f.toCompletion,
			Env:                 f.env,
			Images:              f.images,
			HonourReplicas:      settings.Replicas == nodeconfig.ReplicasHonour,
			Scaled:              run.Scaled(settings.Layout()),
		})
		if f.allowEmpty || f.allowReferred && objects.OnlyReferred() {
			problems = slices.DeleteFunc(problems, func(p problem.Problem) bool { return p.Reason == manifest.ReasonNoPod })
		}
		problems = append(problems, a.otherNamespaces(objects)...)
		err := problem.Refuse(problem.Manifest, problems)
		left := withoutFiles(sources, problems.Errors())
		if err == nil || !f.continueOnError || len(left) == 0 || len(left) == len(sources) {
			warn(problems.Warnings())
			return objects, err
		}
		f.invalid, sources = errors.Join(f.invalid, err), left
	}
}

// podIDs returns the IDs of the pods in the input.
func podIDs(objects *manifest.Objects) []identity.Pod {
	var out []identity.Pod
	for _, p := range objects.Pods {
		out = append(out, identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name})
	}
	return out
}

// longestGrace returns the longest grace period of the pods.
func longestGrace(objects *manifest.Objects) (longest time.Duration) {
	for _, p := range objects.Pods {
		if seconds := p.Object.Spec.TerminationGracePeriodSeconds; seconds != nil {
			longest = max(longest, time.Duration(*seconds)*time.Second)
		}
	}
	return longest
}

// withoutFiles returns the sources whose files have no problems.
func withoutFiles(sources []input.Source, problems problem.List) []input.Source {
	var left []input.Source
	for _, s := range sources {
		if !slices.ContainsFunc(problems, func(p problem.Problem) bool { return p.File == s.Name }) {
			left = append(left, s)
		}
	}
	return left
}

// otherNamespaces reports pods whose manifest specifies a namespace other than -n, as
// kubectl does. A namespace from the environment is only a default.
func (a *app) otherNamespaces(objects *manifest.Objects) problem.List {
	var out problem.List
	for _, p := range objects.Pods {
		if given := p.Object.Namespace; a.namespaceGiven && given != a.namespace {
			out = append(out, p.Locate(problem.Problem{Field: "metadata.namespace", Reason: "NamespaceMismatch",
				Message: fmt.Sprintf("is %q, but -n is %q", given, a.namespace), Hint: "remove one of them"}))
		}
	}
	return out
}
