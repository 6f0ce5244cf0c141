// Sbom writes software bills of materials of podrun, as SPDX 2.3 in JSON.
//
// `make build` embeds a document (package sbom). It lists the modules that the build will link. For
// podrun-bundle, the document includes the components of the embedded runtime, which hack/bundle
// has listed:
//
//	go run ./hack/sbom -embed -version 0.1.0 -arch arm64 -tags podrun_bundle
//
// For a release, Sbom derives the document from the build information of the finished binary. This
// document includes the digest of the binary:
//
//	go run ./hack/sbom -version 0.1.0 -arch arm64 podrun
//
// Both contain the license and the package URL of each module.
//
// The timestamp is SOURCE_DATE_EPOCH, so that the output is reproducible.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podrun/podrun/hack/spdx"
)

func main() {
	version := flag.String("version", "devel", "version of the program")
	arch := flag.String("arch", "", "`architecture` of the program, as GOARCH")
	embed := flag.Bool("embed", false, "write the document in the form that package sbom embeds")
	tags := flag.String("tags", "", "build tags of the program, separated by commas")
	flag.Parse()
	var err error
	if *embed {
		err = writeEmbedded(*version, *arch, *tags)
	} else {
		err = ofBinary(os.Stdout, flag.Arg(0), *version, *arch, *tags)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func ofBinary(w io.Writer, file, version, arch, tags string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	listed, err := linked(".", arch, "grpcnotrace,podrun_sbom,"+tags)
	if err != nil {
		return err
	}
	modules := spdx.Modules(info)
	for i, m := range modules {
		at := slices.IndexFunc(listed, func(l spdx.Module) bool { return l.Path == m.Path && l.Version == m.Version })
		if at < 0 {
			return fmt.Errorf("%s contains the module %s %s, which this checkout does not: build it from this checkout", file, m.Path, m.Version)
		}
		modules[i].License = listed[at].License
	}
	sum := sha256.Sum256(data)
	return document(w, version, arch, spdx.Program{Name: info.Main.Path, SHA256: hex.EncodeToString(sum[:]), Modules: modules}, nil)
}

// document prints the document of podrun. If there is an embedded runtime, it includes the
// runtime's document.
func document(w io.Writer, version, arch string, podrun spdx.Program, inside *spdx.Document) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	d := spdx.New("podrun "+version+" linux/"+arch, time.Unix(seconds, 0))
	podrun.Version, podrun.License = version, "Apache-2.0"
	d.Add(podrun)
	if inside != nil {
		d.Join(*inside)
	}
	return d.Print(w, "podrun-"+arch)
}

// writeEmbedded writes a file for package sbom. The current directory must be the root of the
// module.
func writeEmbedded(version, arch, tags string) error {
	modules, err := linked(".", arch, "grpcnotrace,"+tags)
	if err != nil {
		return err
	}
	kind := "podrun"
	var inside *spdx.Document
	if slices.Contains(strings.Split(tags, ","), "podrun_bundle") {
		kind = "podrun-bundle"
		text, err := os.ReadFile("embedded/archive/runtime_" + arch + ".spdx.json")
		if err != nil {
			return err
		}
		runtime, err := spdx.Read(bytes.NewReader(text))
		if err != nil {
			return err
		}
		inside = &runtime
	}
	var out bytes.Buffer
	if err := document(&out, version, arch, spdx.Program{Name: "podrun", Modules: modules}, inside); err != nil {
		return err
	}
	return replace(filepath.Join("internal", "sbom", kind+"_"+arch+".spdx.json"), out.Bytes())
}

// linked lists the modules of a build's packages in order, with their licenses. These are the
// modules that the linker records in the binary.
func linked(dir, arch, tags string) ([]spdx.Module, error) {
	list := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	goVersion, err := list("env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	text, err := list("list", "-e", "-deps", "-tags", tags, "-f", "{{with .Module}}{{if not .Main}}{{with or .Replace .}}{{.Path}}\t{{.Version}}\t{{.Sum}}\t{{.Dir}}{{end}}{{end}}{{end}}\t{{.Dir}}", ".")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	out := []spdx.Module{spdx.Stdlib(goVersion)}
	texts := []map[string]string{nil} // the license files of each module
	for _, line := range lines {
		parts := strings.Split(line, "\t")
		if len(parts) < 5 { // the package belongs to the standard library or to podrun
			continue
		}
		m := spdx.Module{Path: parts[0], Version: parts[1], Sum: parts[2]}
		if m.Version == "" || m.Sum == "" {
			return nil, fmt.Errorf("module %q has no version or no sum", line)
		}
		if out[len(out)-1] != m {
			out, texts = append(out, m), append(texts, map[string]string{})
		}
		if err := spdx.ReadLicenses(texts[len(texts)-1], parts[3], parts[4]); err != nil {
			return nil, err
		}
	}
	for i := 1; i < len(out); i++ {
		out[i].License = spdx.Expression(spdx.Licenses(texts[i]))
	}
	if len(out) < 2 {
		return nil, errors.New("no modules were found")
	}
	return out, nil
}

// replace atomically replaces a file, because another build may be reading it.
func replace(path string, content []byte) error {
	temporary := path + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
