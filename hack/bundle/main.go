// Bundle packs the programs that hack/make-bundle has built into the archive that podrun-bundle contains:
//
//	go run ./hack/bundle -stage DIR -arch amd64 -pause FILE -packages FILE -libraries FILE -out PREFIX
//
// It writes PREFIX.tar.zst and PREFIX.sum. PREFIX.sum contains the SHA-256 digest of PREFIX.tar.zst, and the size
// of the tar archive in bytes. Builds are reproducible: the files in the archive have no timestamps and owners,
// and their order is fixed. docs/bundle.md describes the content.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/embedded/archive"
)

type options struct {
	stage, arch, pause, packages, libraries, lgpl, goroot, compiler, out string
}

func main() {
	var o options
	flag.StringVar(&o.stage, "stage", "", "`directory` with the programs, in bin and cni")
	flag.StringVar(&o.arch, "arch", "", "their `architecture`, as GOARCH")
	flag.StringVar(&o.pause, "pause", "", "the program of the pause image")
	flag.StringVar(&o.packages, "packages", "", "`file` with a line for each linked Go package, including podrun's: module, version, directory of the module, directory of the package, separated by tabs")
	flag.StringVar(&o.libraries, "libraries", "", "`file` with a line for each C library: name, version, SPDX license, source package, copyright file, separated by tabs")
	flag.StringVar(&o.lgpl, "lgpl", "/usr/share/common-licenses/LGPL-2.1", "`file` with the text of the LGPL 2.1")
	flag.StringVar(&o.goroot, "goroot", "", "`directory` of the Go installation (GOROOT)")
	flag.StringVar(&o.compiler, "compiler", "", "`version` of the C compiler")
	flag.StringVar(&o.out, "out", "", "`prefix` of the files to write")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	files, err := readStage(o.stage)
	if err != nil {
		return err
	}
	pause, err := os.ReadFile(o.pause)
	if err != nil {
		return err
	}
	if files[archive.Pause], err = pauseImage(pause, o.arch); err != nil {
		return err
	}

	libraries, err := readLibraries(o.libraries)
	if err != nil {
		return err
	}
	licenses, err := readLicenses(o.packages, o.goroot)
	if err != nil {
		return err
	}
	programs, err := describe(o.stage, files, licenses, libraries)
	if err != nil {
		return err
	}
	versions := versionsOf(programs, libraries, o.compiler)
	versions["arch"], versions["pause"] = o.arch, pauseName
	if files[archive.Versions], err = json.MarshalIndent(versions, "", "  "); err != nil {
		return err
	}
	lgpl, err := os.ReadFile(o.lgpl)
	if err != nil {
		return err
	}
	files[archive.Licenses] = licenseText(licenses, libraries, lgpl)
	if files[archive.SBOM], err = billOf(programs, o.arch); err != nil {
		return err
	}
	files[archive.Sums] = sums(files)
	return write(o.out, files)
}

// readStage reads the programs, and returns them by their names in the archive.
func readStage(stage string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, dir := range []string{"bin", "cni"} {
		err := filepath.WalkDir(filepath.Join(stage, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(stage, path)
			if err != nil {
				return err
			}
			files[name], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// write writes the archive and then its sum. If the sum exists, the pair is complete.
func write(out string, files map[string][]byte) error {
	packed, digest, unpacked, err := compress(files)
	if err != nil {
		return err
	}
	if err := replace(out+".tar.zst", packed); err != nil {
		return err
	}
	if err := replace(out+".spdx.json", files[archive.SBOM]); err != nil {
		return err
	}
	if err := replace(out+".sum", fmt.Appendf(nil, "%s %d\n", digest, unpacked)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Printf("%-32s %9d bytes\n", name, len(files[name]))
	}
	fmt.Printf("%-32s %9d bytes, %8d compressed\n", filepath.Base(out)+".tar.zst", unpacked, len(packed))
	return nil
}

func replace(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// created is the time in the documents of the archive. It is fixed, so that builds are
// reproducible.
var created = time.Unix(0, 0)

// fields splits each line of a file at tabs into n fields.
func fields(path string, n int) ([][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out [][]string
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != n {
			return nil, fmt.Errorf("%s: %q has %d fields, not %d", path, line, len(parts), n)
		}
		out = append(out, parts)
	}
	return out, nil
}
