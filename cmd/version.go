package cmd

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
)

// kubernetesVersion is the version of the kubelet that podrun reproduces, and of the
// Kubernetes code that validates manifests.
const kubernetesVersion = "v1.36.3"

type versionInfo struct {
	Client  clientVersion   `json:"client"`
	Runtime *runtimeVersion `json:"runtime,omitempty"`
}

type clientVersion struct {
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

type runtimeVersion struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	APIVersion string `json:"apiVersion"`
	Endpoint   string `json:"endpoint"`
}

func newVersion(a *app) *cobra.Command {
	var clientOnly, licenses, bill bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of podrun and of the container runtime",
		Long: `Print the versions of podrun and of the container runtime.

With --licenses or --sbom, print the components of this binary instead: the Go
modules that are linked into it and, for podrun-bundle, the programs of the
embedded runtime with their modules.`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case licenses && bill, (licenses || bill) && a.output != "":
				return grammar.Usage(c, errors.New("--licenses, --sbom and -o cannot be used together"))
			case licenses:
				return a.printLicenses()
			case bill:
				return a.printSBOM()
			}
			if err := checkOutput(a.output, "json", "yaml"); err != nil {
				return err
			}
			info := a.versionInfo()
			if clientOnly {
				return a.printVersion(info)
			}
			var err error
			info.Runtime, err = a.runtimeVersion(c)
			if perr := a.printVersion(info); perr != nil {
				return perr
			}
			return err
		},
	}
	c.Flags().BoolVar(&clientOnly, "client", false, "do not contact the runtime")
	c.Flags().BoolVar(&licenses, "licenses", false, "print the licenses of all components of this binary; podrun-bundle includes the license texts")
	c.Flags().BoolVar(&bill, "sbom", false, "print a software bill of materials as SPDX 2.3 JSON")
	c.Flags().StringVarP(&a.output, "output", "o", "", "print as json or yaml")
	return c
}

// versionInfo returns podrun's own version.
func (a *app) versionInfo() versionInfo {
	return versionInfo{Client: clientVersion{
		Version: a.version, Kubernetes: kubernetesVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
}

func (a *app) runtimeVersion(c *cobra.Command) (*runtimeVersion, error) {
	engine, closeAll, err := a.engine(c.Context(), &renderer{w: a.streams.Err}, ownruntime.Reads)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	v, err := run.RuntimeVersion(c.Context(), engine)
	if err != nil {
		return nil, err
	}
	return &runtimeVersion{Name: v.Name, Version: v.Version, APIVersion: v.APIVersion, Endpoint: v.Endpoint}, nil
}

func (a *app) printVersion(v versionInfo) error {
	if a.output != "" {
		return view.PrintData(a.raw.Out, a.output, v)
	}
	fmt.Fprintf(a.streams.Out, "podrun %s (Kubernetes %s, %s, %s)\n", v.Client.Version, v.Client.Kubernetes, v.Client.Go, v.Client.Platform)
	if r := v.Runtime; r != nil {
		fmt.Fprintf(a.streams.Out, "%s %s (CRI %s) at %s\n", r.Name, r.Version, r.APIVersion, r.Endpoint)
	}
	return nil
}
