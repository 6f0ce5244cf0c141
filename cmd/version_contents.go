package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/podrun/podrun/embedded/archive"
	"github.com/podrun/podrun/sbom"
)

// maxContents bounds the documents of the embedded runtime, in bytes: 20 times
// what they have.
const maxContents = 16 << 20

// printLicenses prints under which licenses podrun and its embedded runtime are.
// A build without one has no license texts, which take as much as some commands.
func (a *app) printLicenses() error {
	if runtimeArchive, ok := archive.Open(); ok {
		text, err := runtimeArchive.File(archive.Licenses, maxContents)
		if err != nil {
			return err
		}
		_, err = a.raw.Out.Write(text)
		return err
	}
	program, err := a.describeSelf()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.streams.Out, "podrun %s is licensed under the Apache License 2.0. It is built from these Go modules.\n"+
		"Their license texts are in the source of each ('go mod download MODULE@VERSION'), and 'podrun-bundle version --licenses' prints them.\n\n", a.version)
	for _, m := range program.Modules {
		fmt.Fprintf(a.streams.Out, "%s %s\n", m.Path, m.Version)
	}
	return nil
}

// printSBOM prints what podrun and its embedded runtime are made of.
func (a *app) printSBOM(now time.Time) error {
	program, err := a.describeSelf()
	if err != nil {
		return err
	}
	d := sbom.New("podrun "+a.version+" "+runtime.GOOS+"/"+runtime.GOARCH, now)
	d.Add(program)
	if runtimeArchive, ok := archive.Open(); ok {
		text, err := runtimeArchive.File(archive.SBOM, maxContents)
		if err != nil {
			return err
		}
		var inside sbom.Document
		if err := json.Unmarshal(text, &inside); err != nil {
			return fmt.Errorf("SBOM of the embedded runtime: %w", err)
		}
		d.Join(inside)
	}
	return d.Print(a.raw.Out, "podrun-"+runtime.GOARCH)
}

// describeSelf reads what Go's linker wrote into this program.
func (a *app) describeSelf() (sbom.Program, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return sbom.Program{}, errors.New("this podrun was built without Go's build information, which lists its modules: build it in module mode")
	}
	return sbom.Program{Name: "podrun", Version: a.version, License: "Apache-2.0", Modules: sbom.Modules(info)}, nil
}
