package cmd

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
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

func newVersion(a *cli.App) *cobra.Command {
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
			case licenses && bill, (licenses || bill) && a.Output != "":
				return grammar.Usage(c, errors.New("--licenses, --sbom and -o cannot be used together"))
			case licenses:
				return printLicenses(a)
			case bill:
				return printSBOM(a)
			}
			if err := cli.CheckOutput(a.Output, "json", "yaml"); err != nil {
				return err
			}
			info := newVersionInfo(a)
			if clientOnly {
				return printVersion(a, info)
			}
			var err error
			info.Runtime, err = readRuntimeVersion(a, c)
			if perr := printVersion(a, info); perr != nil {
				return perr
			}
			return err
		},
	}
	c.Flags().BoolVar(&clientOnly, "client", false, "do not contact the runtime")
	c.Flags().BoolVar(&licenses, "licenses", false, "print the licenses of all components of this binary; podrun-bundle includes the license texts")
	c.Flags().BoolVar(&bill, "sbom", false, "print a software bill of materials as SPDX 2.3 JSON")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as json or yaml")
	return c
}

// newVersionInfo returns podrun's own version.
func newVersionInfo(a *cli.App) versionInfo {
	return versionInfo{Client: clientVersion{
		Version: a.Version, Kubernetes: kubernetesVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
}

func readRuntimeVersion(a *cli.App, c *cobra.Command) (*runtimeVersion, error) {
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: a.Streams.Err}, ownruntime.Reads)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	v, err := run.RuntimeVersion(c.Context(), node)
	if err != nil {
		return nil, err
	}
	return &runtimeVersion{Name: v.Name, Version: v.Version, APIVersion: v.APIVersion, Endpoint: v.Endpoint}, nil
}

func printVersion(a *cli.App, v versionInfo) error {
	if a.Output != "" {
		return view.PrintData(a.Raw.Out, a.Output, v)
	}
	fmt.Fprintf(a.Streams.Out, "podrun %s (Kubernetes %s, %s, %s)\n", v.Client.Version, v.Client.Kubernetes, v.Client.Go, v.Client.Platform)
	if r := v.Runtime; r != nil {
		fmt.Fprintf(a.Streams.Out, "%s %s (CRI %s) at %s\n", r.Name, r.Version, r.APIVersion, r.Endpoint)
	}
	return nil
}
