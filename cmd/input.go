package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run"
)

// inputFlags are the flags of commands that read manifests.
type inputFlags struct {
	objectFlags
	files         []string
	validate      string
	ignoreKinds   bool
	skipKinds     []string
	restartPolicy string
	toEnd         bool // the command runs pods to their ends
	strictCluster bool
}

func (f *inputFlags) add(set *pflag.FlagSet) {
	set.StringArrayVarP(&f.files, "filename", "f", nil, "`file`, directory, - for stdin, or https URL to read; repeatable")
	f.objectFlags.add(set)
	set.StringVar(&f.validate, "validate", string(manifest.Strict), "how to handle unknown and duplicate fields: strict, warn or ignore")
	set.StringSliceVar(&f.skipKinds, "skip-kinds", nil, "skip objects of these `kinds` (NetworkPolicy,Certificate); Service, Ingress, RBAC kinds and the like are skipped in any case")
	set.BoolVar(&f.ignoreKinds, "ignore-unknown-kinds", false, "skip objects of all kinds that podrun does not use, except those that restrict pods")
	set.BoolVar(&f.strictCluster, "strict-cluster-fields", false, "refuse pods with fields that only a cluster supports, instead of dropping the fields")
}

// loadWithin is load for a command with a --timeout, which holds for reading,
// too: a FIFO or a server may never send the end. Where reading took long, that
// time is taken out of the limit; 0 is none.
func (f *inputFlags) loadWithin(limit *time.Duration, a *app, c *cobra.Command, named []string, warn func(problem.List)) (*manifest.Objects, error) {
	if *limit <= 0 {
		return f.load(c.Context(), a, c, named, warn)
	}
	ctx, cancel := context.WithTimeoutCause(c.Context(), *limit, &problem.Error{Kind: problem.Deadline,
		Err: fmt.Errorf("the input did not end within --timeout=%s", *limit), Hint: "check the program that writes it, or increase --timeout"})
	defer cancel()
	begin := time.Now()
	objects, err := f.load(ctx, a, c, named, warn)
	if took := time.Since(begin).Round(100 * time.Millisecond); took > 0 {
		*limit = max(*limit-took, time.Millisecond)
	}
	return objects, err
}

// load reads and checks the manifests that the command names.
func (f *inputFlags) load(ctx context.Context, a *app, c *cobra.Command, named []string, warn func(problem.List)) (*manifest.Objects, error) {
	names := append(append([]string(nil), f.files...), named...)
	if len(names) == 0 {
		return nil, usage(c, errors.New("specify a file: "+c.UseLine()))
	}
	switch manifest.Validate(f.validate) {
	case manifest.Strict, manifest.Warn, manifest.Ignore:
	default:
		return nil, usage(c, fmt.Errorf("--validate=%s is not one of strict, warn, ignore", f.validate))
	}
	settings, _, err := a.settings.settings()
	if err != nil {
		return nil, err
	}
	warn(manifest.SetGates(settings.FeatureGates))
	names = slices.Concat(names, f.configMaps, f.secrets)
	sources, err := manifest.Read(ctx, names, manifest.ReadOptions{Stdin: a.streams.In})
	if err != nil {
		return nil, err
	}
	objects, problems := manifest.Load(sources, manifest.Options{
		Namespace:           a.namespace,
		Validate:            manifest.Validate(f.validate),
		SkipKinds:           f.skipKinds,
		IgnoreUnknownKinds:  f.ignoreKinds,
		StrictClusterFields: f.strictCluster,
		Suffix:              run.RandomSuffix,
		RestartPolicy:       corev1.RestartPolicy(f.restartPolicy),
		ToEnd:               f.toEnd,
	})
	problems = append(problems, a.otherNamespaces(objects)...)
	warn(problems.Warnings())
	if err := problem.Refuse(problem.Manifest, problems); err != nil {
		return nil, err
	}
	return objects, f.serveClaims(c, objects, settings.Claims)
}

// otherNamespaces reports pods whose manifest names another namespace than -n
// does, as kubectl does. A namespace from the environment is a default only.
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
