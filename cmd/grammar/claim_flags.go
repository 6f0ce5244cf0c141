package grammar

import (
	"fmt"
	"maps"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// ObjectFlags specify the objects that pods refer to, in addition to the files of the
// pods.
type ObjectFlags struct {
	ConfigMaps, Secrets, Claims []string
}

func (f *ObjectFlags) Add(set *pflag.FlagSet) {
	set.StringArrayVar(&f.ConfigMaps, "configmap", nil, "`file` with ConfigMaps that the pods refer to; repeatable")
	set.StringArrayVar(&f.Secrets, "secret", nil, "`file` with Secrets that the pods refer to; repeatable")
	f.AddClaimFlag(set)
}

func (f *ObjectFlags) AddClaimFlag(set *pflag.FlagSet) {
	set.StringArrayVar(&f.Claims, "pvc", nil, "bind a PersistentVolumeClaim to a directory of this host: `NAME=DIR`; repeatable")
}

// ClaimPaths returns the directories of --pvc, by the names of the claims.
func (f *ObjectFlags) ClaimPaths(c *cobra.Command) (map[string]string, error) {
	paths := map[string]string{}
	for _, text := range f.Claims {
		name, dir, err := manifest.ParseClaim(text)
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return nil, Usage(c, fmt.Errorf("--pvc: %w", err))
		}
		paths[name] = dir
	}
	return paths, nil
}

// AddClaims assigns directories to claims: the directories of the settings and those of --pvc.
// At least one pod must use each claim of --pvc.
func (f *ObjectFlags) AddClaims(c *cobra.Command, o *manifest.Objects, settings map[string]string) error {
	paths, err := f.ClaimPaths(c)
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
