package cmd

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/embedded/archive"
	"github.com/podrun/podrun/internal/sbom"
)

// maxContents limits the size of the embedded runtime's documents in bytes. It is 20 times
// their actual size.
const maxContents = 16 << 20

// printLicenses prints the licenses of podrun and its embedded runtime. A build without the
// runtime contains no license texts, because of their size.
func printLicenses(a *cli.App) error {
	if runtimeArchive, ok := archive.Open(); ok {
		text, err := runtimeArchive.File(archive.Licenses, maxContents)
		if err != nil {
			return err
		}
		_, err = a.Raw.Out.Write(text)
		return err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this podrun was built without Go's build information, which lists its modules: build it in module mode")
	}
	fmt.Fprintf(a.Streams.Out, "podrun %s is licensed under the Apache License 2.0. It is built from these Go modules.\n"+
		"The source of each module ('go mod download MODULE@VERSION') contains its license text; 'podrun-bundle version --licenses' prints all of them.\n\n", a.Version)
	fmt.Fprintf(a.Streams.Out, "stdlib %s\n", info.GoVersion)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		fmt.Fprintf(a.Streams.Out, "%s %s\n", m.Path, m.Version)
	}
	return nil
}

// printSBOM prints the components of podrun and its embedded runtime, as make build
// recorded them.
func printSBOM(a *cli.App) error {
	text := sbom.Document()
	if text == "" {
		return errors.New("this podrun was built without a software bill of materials: build it with make build, or list its modules with 'podrun version --licenses'")
	}
	_, err := fmt.Fprint(a.Raw.Out, text)
	return err
}
