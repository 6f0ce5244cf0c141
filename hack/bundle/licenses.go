package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/podrun/podrun/hack/spdx"
)

// allowed are the licenses whose terms are met if their texts and the versions of the modules are
// included (MPL-2.0: the location of the source). A person must read another license before adding
// it.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0"}

// license contains a Go module with the texts of its license.
type license struct {
	module spdx.Module
	texts  map[string]string // texts by file name, relative to the module
}

// readLicenses finds the licenses of Go, and of the modules with the listed packages. They are
// the files in the directory of each package and in its parents, up to the root of the module.
// podrun's own modules have no license files in these directories.
func readLicenses(packages, goroot string) ([]license, error) {
	lines, err := fields(packages, 4)
	if err != nil {
		return nil, err
	}
	found := map[string]license{}
	for _, line := range lines {
		path, version, root, dir := line[0], line[1], line[2], line[3]
		// this is a module of podrun
		if version == "" {
			continue
		}
		id := path + "@" + version
		if _, ok := found[id]; !ok {
			found[id] = license{module: spdx.Module{Path: path, Version: version}, texts: map[string]string{}}
		}
		if err := spdx.ReadLicenses(found[id].texts, root, dir); err != nil {
			return nil, err
		}
	}
	goTexts := map[string]string{}
	if err := spdx.ReadLicenses(goTexts, goroot, goroot); err != nil {
		return nil, err
	}
	found["stdlib"] = license{module: spdx.Module{Path: "stdlib"}, texts: goTexts}
	var out []license
	for _, id := range slices.Sorted(maps.Keys(found)) {
		l := found[id]
		if l.module.License, err = identify(id, l.texts); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// identify returns the SPDX expression of a module's texts. It returns an error for a license
// that is unknown or not allowed.
func identify(module string, texts map[string]string) (string, error) {
	ids := spdx.Licenses(texts)
	if len(ids) == 0 {
		return "", fmt.Errorf("the license of %s is unknown: read it, and add it to hack/bundle", module)
	}
	for _, id := range ids {
		if !slices.Contains(allowed, id) {
			return "", fmt.Errorf("the license of %s is %s: read it, comply with its terms, and add it to the allowed licenses", module, id)
		}
	}
	return spdx.Expression(ids), nil
}

// library is a statically linked C library and its Debian package.
type library struct {
	spdx.Library
	copyright string
}

func readLibraries(path string) ([]library, error) {
	lines, err := fields(path, 5)
	if err != nil {
		return nil, err
	}
	var out []library
	for _, line := range lines {
		text, err := os.ReadFile(line[4])
		if err != nil {
			return nil, fmt.Errorf("copyright of %s: %w", line[0], err)
		}
		out = append(out, library{
			Library:   spdx.Library{Name: line[0], Version: line[1], License: line[2], Source: line[3]},
			copyright: string(bytes.TrimSpace(text)),
		})
	}
	return out, nil
}

// relinking is the statement that section 6 of the LGPL 2.1 requires.
const relinking = `runc is linked statically with these libraries. libseccomp and glibc are under the GNU
Lesser General Public License 2.1; its text is at the end of this file. The license of
libgcc, the library of the compiler, has an exception for programs such as runc. The
complete source of the libraries is that of Debian's source packages: "apt-get source
PACKAGE=VERSION". You may change libseccomp and glibc and link runc with yours; all
other code in runc is open source. In podrun's source, run "make bundle". It unpacks
libseccomp.a and libc.a below ~/.cache/podrun-bundle/libraries-ARCH. Replace them there,
and run "make bundle" again. You may reverse engineer podrun-bundle to debug such changes.
`

// sources is the statement that section 3.2 of the MPL 2.0 requires.
const sources = `"go mod download MODULE@VERSION" downloads the unmodified source of each module.
`

// licenseText joins all texts. It includes equal texts only once.
func licenseText(licenses []license, libraries []library, lgpl []byte) []byte {
	var out bytes.Buffer
	heading := func(title string) {
		fmt.Fprintf(&out, "%s\n%s\n%s\n\n", strings.Repeat("=", 80), title, strings.Repeat("=", 80))
	}
	heading("Go modules that are linked into podrun-bundle and the programs in it")
	fmt.Fprintf(&out, "%s\n", sources)
	owners := map[string][]string{} // modules and libraries, by text
	for _, l := range licenses {
		id := strings.TrimSpace(l.module.Path + " " + l.module.Version)
		fmt.Fprintf(&out, "%s: %s\n", id, l.module.License)
		for _, name := range slices.Sorted(maps.Keys(l.texts)) {
			owners[l.texts[name]] = append(owners[l.texts[name]], id+": "+name)
		}
	}
	fmt.Fprintln(&out)
	heading("C libraries that are linked into runc")
	fmt.Fprintf(&out, "%s\n", relinking)
	for _, l := range libraries {
		fmt.Fprintf(&out, "%s %s: %s; source package %s\n", l.Name, l.Version, l.License, l.Source)
		owners[l.copyright] = append(owners[l.copyright], l.Name+" "+l.Version)
	}
	fmt.Fprintln(&out)
	texts := slices.SortedFunc(maps.Keys(owners), func(a, b string) int { return cmp.Compare(owners[a][0], owners[b][0]) })
	for _, text := range texts {
		heading(strings.Join(owners[text], "\n"))
		fmt.Fprintf(&out, "%s\n\n", text)
	}
	heading("GNU Lesser General Public License 2.1")
	fmt.Fprintf(&out, "%s\n", bytes.TrimSpace(lgpl))
	return out.Bytes()
}
