package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/embedded/archive"
	"github.com/podrun/podrun/hack/spdx"
)

// undescribed are the files that describe omits: the image, the copies of podrun-net under other names,
// and the programs without modules (hack/make-bundle).
var undescribed = []string{archive.Pause, "cni/bridge", "bin/podrun-oci-create", "bin/podrun-oci", "bin/podrun-enter"}

// describe returns the Go programs, sorted by name, with the modules from which they were built. Only
// runc is linked with C libraries.
func describe(stage string, files map[string][]byte, licenses []license, libraries []library) ([]spdx.Program, error) {
	known := map[string]string{}
	for _, l := range licenses {
		known[l.module.Path+"@"+l.module.Version] = l.module.License
	}
	var out []spdx.Program
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if slices.Contains(undescribed, name) {
			continue
		}
		info, err := buildinfo.ReadFile(filepath.Join(stage, name))
		if err != nil {
			return nil, err
		}
		p := spdx.Program{
			Name: path.Base(name), Version: info.Main.Version, License: known[info.Main.Path+"@"+info.Main.Version],
			SHA256: digestOf(files[name]), Modules: spdx.Modules(info),
		}
		if info.Main.Version == "" || info.Main.Version == "(devel)" { // a program of podrun
			p.Version, p.License = "devel", "Apache-2.0"
		}
		for i, m := range p.Modules {
			if license := known[m.Path+"@"+m.Version]; license != "" {
				p.Modules[i].License = license
			}
			if p.Modules[i].License == "" {
				return nil, fmt.Errorf("%s contains the module %s %s, whose license was not collected: list the packages of %[1]s in the file of -packages", name, m.Path, m.Version)
			}
		}
		if p.Name == "runc" {
			for _, l := range libraries {
				p.Libraries = append(p.Libraries, l.Library)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// versionsOf returns the versions of the archive's components and of the compiler.
func versionsOf(programs []spdx.Program, libraries []library, compiler string) map[string]string {
	out := map[string]string{"gcc": compiler}
	for _, p := range programs {
		if p.Name == "containerd-shim-runc-v2" { // the version of the shim is that of containerd
			continue
		}
		out[p.Name], out["go"] = p.Version, p.Modules[0].Version
	}
	for _, l := range libraries {
		out[l.Name] = l.Version
	}
	return out
}

// billOf returns the SBOM of the archive. hack/sbom adds it to podrun's own SBOM.
func billOf(programs []spdx.Program, arch string) ([]byte, error) {
	d := spdx.New("podrun runtime linux/"+arch, created)
	for _, p := range programs {
		d.Add(p)
	}
	var out bytes.Buffer
	err := d.Print(&out, "runtime-"+arch)
	return out.Bytes(), err
}
