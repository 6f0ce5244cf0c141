package cmd

import (
	"fmt"
	"maps"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// objectFlags specify the objects that pods refer to, in addition to the files of the
// pods.
type objectFlags struct {
	configMaps, secrets, claims []string
}

func (f *objectFlags) add(set *pflag.FlagSet) {
	set.StringArrayVar(&f.configMaps, "configmap", nil, "`file` with ConfigMaps that the pods refer to; repeatable")
	set.StringArrayVar(&f.secrets, "secret", nil, "`file` with Secrets that the pods refer to; repeatable")
	f.addClaimFlag(set)
}

func (f *objectFlags) addClaimFlag(set *pflag.FlagSet) {
	set.StringArrayVar(&f.claims, "pvc", nil, "bind a PersistentVolumeClaim to a directory of this host: `NAME=DIR`; repeatable")
}

// claimPaths returns the directories of --pvc, by the names of the claims.
func (f *objectFlags) claimPaths(c *cobra.Command) (map[string]string, error) {
	paths := map[string]string{}
	for _, text := range f.claims {
		name, dir, err := manifest.ParseClaim(text)
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return nil, usage(c, fmt.Errorf("--pvc: %w", err))
		}
		paths[name] = dir
	}
	return paths, nil
}

// addClaims assigns directories to claims: the directories of the settings and those of --pvc.
// At least one pod must use each claim of --pvc.
func (f *objectFlags) addClaims(c *cobra.Command, o *manifest.Objects, settings map[string]string) error {
	paths, err := f.claimPaths(c)
	if err != nil {
		return err
	}
	if unused := o.ServeClaims(paths); len(unused) > 0 {
		return &problem.Error{Kind: problem.Usage, Object: "--pvc", Err: fmt.Errorf("no pod uses the claim %s", unused[0]),
			Hint: "use the name of a claim in spec.volumes[].persistentVolumeClaim.claimName"}
	}
	others := maps.Clone(settings)
	maps.DeleteFunc(others, func(name, _ string) bool { return paths[name] != "" })
	// These claims may be unused here: the host's settings also contain the claims of other commands'
	// pods.
	_ = o.ServeClaims(others)
	return nil
}
