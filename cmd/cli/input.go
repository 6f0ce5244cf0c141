package cli

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

// InputFlags are the flags of commands that read manifests.
type InputFlags struct {
	grammar.ObjectFlags
	Files         []string
	Kustomize     string // a directory
	Validate      string
	IgnoreKinds   bool
	skipKinds     []string
	RestartPolicy string
	ToCompletion  bool // pods run to completion
	strictCluster bool
	RelativePaths bool
	Services      bool // the command reads Services
	// ContinueOnError makes load skip invalid files and set invalid. AllowEmpty makes it accept an
	// input without pods, and AllowReferred one with only ConfigMaps and Secrets.
	ContinueOnError, AllowEmpty, AllowReferred bool
	Invalid                                    error
	// Generated is the object that the command line defines instead of files.
	Generated *input.Source
	// CreateHint is the hint of the error for a pod that exists already. If it is empty, pods may exist.
	CreateHint string
	// Notes are warnings about the command line.
	Notes problem.List
	// Env and images change the pods (manifest.Options).
	Env    []corev1.EnvVar
	Images map[string]string
}

// Add adds the flags.
func (f *InputFlags) Add(set *pflag.FlagSet) {
	set.StringArrayVarP(&f.Files, "filename", "f", nil, "`file`, directory, - for stdin, or https URL to read; repeatable")
	set.StringVarP(&f.Kustomize, "kustomize", "k", "", "`directory` of a kustomization to build and read")
	f.ObjectFlags.Add(set)
	set.StringVar(&f.Validate, "validate", string(manifest.Strict), "how to handle unknown and duplicate fields: strict, warn or ignore")
	set.StringSliceVar(&f.skipKinds, "skip-kinds", nil, "skip objects of these `kinds` (NetworkPolicy,Certificate), or all custom resources (custom); Ingress, RBAC and similar kinds are always skipped")
	set.BoolVar(&f.IgnoreKinds, "ignore-unknown-kinds", false, "skip objects of all kinds that podrun does not use, except those that restrict pods")
	set.BoolVar(&f.RelativePaths, "relative-host-paths", false, "resolve relative hostPaths against the directory of the manifest")
	set.BoolVar(&f.strictCluster, "strict-cluster-fields", false, "refuse pods with fields that only a cluster supports, instead of dropping the fields")
}

// HasFiles reports whether -f or -k names manifests.
func (f *InputFlags) HasFiles() bool { return len(f.Files) > 0 || f.Kustomize != "" }

// LoadWithin is load with an error that explains the end of the command's time limit: a FIFO or a
// server may never send EOF.
func (f *InputFlags) LoadWithin(a *App, c *cobra.Command, named []string, warn func(problem.List)) (*manifest.Objects, error) {
	limit := a.Deadline.limit
	if limit <= 0 {
		return f.Load(c.Context(), a, c, named, warn)
	}
	late := &problem.Error{Kind: problem.Deadline,
		Err: fmt.Errorf("the input did not end within --timeout=%s", limit), Hint: "check the program that writes it, or increase --timeout"}
	ctx, cancel := context.WithTimeoutCause(a.Deadline.Unlimited, limit-time.Since(a.Began), late)
	defer cancel()
	// The recorder is in the command's context.
	defer trace.Begin(c.Context(), "read manifests", "")()
	objects, err := f.Load(ctx, a, c, named, warn)
	if err == nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // the process was suspended, or a signal arrived
	}
	return objects, err
}

// Load reads and validates the manifests on the command line.
func (f *InputFlags) Load(ctx context.Context, a *App, c *cobra.Command, named []string, warn func(problem.List)) (*manifest.Objects, error) {
	names := append(append([]string(nil), f.Files...), named...)
	if len(names) == 0 && f.Kustomize == "" && f.Generated == nil {
		if !IsRedirected(a.Streams.In) {
			return nil, problem.UsageError(errors.New("specify a file"), "use '"+c.CommandPath()+" FILE', or '-' for standard input: 'kubectl kustomize DIR | "+c.CommandPath()+" -'")
		}
		names = []string{"-"}
	}
	switch manifest.Validate(f.Validate) {
	case manifest.Strict, manifest.Warn, manifest.Ignore:
	case "true": // as in kubectl
		f.Validate = string(manifest.Strict)
	case "false":
		f.Validate = string(manifest.Ignore)
	default:
		return nil, problem.UsageError(fmt.Errorf("--validate=%s is not one of strict, warn, ignore", f.Validate), "--validate=ignore drops unknown fields silently, --validate=warn with a warning")
	}
	settings, _, err := a.Settings.Settings()
	if err != nil {
		return nil, err
	}
	warn(manifest.SetGates(settings.FeatureGates))
	warn(f.Notes)
	sources, err := f.read(ctx, a, slices.Concat(expandFiles(names), f.ConfigMaps, f.Secrets))
	if err != nil && (!f.ContinueOnError || len(sources) == 0) {
		return nil, err
	}
	f.Invalid = err
	dir := ""
	if f.RelativePaths {
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

// IsRedirected reports whether standard input is a file, as in podrun apply < FILE. Without the
// argument -, podrun does not read a pipe: a script may have a pipe as its standard input that
// never reaches its end.
func IsRedirected(in io.Reader) bool {
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
func (f *InputFlags) read(ctx context.Context, a *App, names []string) ([]input.Source, error) {
	var sources []input.Source
	var failed error
	if f.Generated != nil {
		sources = append(sources, *f.Generated)
	}
	if len(names) > 0 {
		var files []input.Source
		files, failed = input.Read(ctx, names, input.ReadOptions{Stdin: a.Streams.In, EmptyDirs: f.AllowEmpty})
		sources = append(sources, files...)
	}
	if f.Kustomize != "" {
		built, err := input.ReadKustomization(ctx, f.Kustomize)
		if err == nil {
			sources = append(sources, built)
		}
		failed = errors.Join(failed, err)
	}
	return sources, failed
}

// parse validates the sources. With ContinueOnError it omits files with errors; only if no file
// remains does it return their errors.
func (f *InputFlags) parse(a *App, settings nodeconfig.Settings, sources []input.Source, dir string, warn func(problem.List)) (*manifest.Objects, error) {
	for {
		objects, problems := manifest.Load(sources, manifest.Options{
			Namespace:           a.Namespace,
			Validate:            manifest.Validate(f.Validate),
			SkipKinds:           f.skipKinds,
			IgnoreUnknownKinds:  f.IgnoreKinds,
			Services:            f.Services,
			StrictClusterFields: f.strictCluster,
			WorkingDir:          dir,
			Suffix:              run.RandomSuffix,
			RestartPolicy:       corev1.RestartPolicy(f.RestartPolicy),
			ToEnd:               f.ToCompletion,
			Env:                 f.Env,
			Images:              f.Images,
			HonourReplicas:      settings.Replicas == nodeconfig.ReplicasHonour,
			Scaled:              run.Scaled(settings.Layout()),
		})
		if f.AllowEmpty || f.AllowReferred && objects.OnlyReferred() {
			problems = slices.DeleteFunc(problems, func(p problem.Problem) bool { return p.Reason == manifest.ReasonNoPod })
		}
		problems = append(problems, a.otherNamespaces(objects)...)
		err := problem.Refuse(problem.Manifest, problems)
		left := withoutFiles(sources, problems.Errors())
		if err == nil || !f.ContinueOnError || len(left) == 0 || len(left) == len(sources) {
			warn(problems.Warnings())
			return objects, err
		}
		f.Invalid, sources = errors.Join(f.Invalid, err), left
	}
}

// PodIDs returns the IDs of the pods in the input.
func PodIDs(objects *manifest.Objects) []identity.Pod {
	var out []identity.Pod
	for _, p := range objects.Pods {
		out = append(out, identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name})
	}
	return out
}

// LongestGrace returns the longest grace period of the pods.
func LongestGrace(objects *manifest.Objects) (longest time.Duration) {
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
func (a *App) otherNamespaces(objects *manifest.Objects) problem.List {
	var out problem.List
	for _, p := range objects.Pods {
		if given := p.Object.Namespace; a.NamespaceGiven && given != a.Namespace {
			out = append(out, p.Locate(problem.Problem{Field: "metadata.namespace", Reason: "NamespaceMismatch",
				Message: fmt.Sprintf("is %q, but -n is %q", given, a.Namespace), Hint: "remove one of them"}))
		}
	}
	return out
}
