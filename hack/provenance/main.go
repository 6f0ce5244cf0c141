// Provenance prints the provenance of the files of a release. It is an in-toto statement whose
// predicate is a SLSA provenance (v1), which docs/release.md describes. hack/release writes it:
//
//	go run ./hack/provenance -version 0.1.0 -commit HASH -arch 'amd64 arm64' -binary podrun DIR
//
// The subjects are the files in DIR. The output contains no time, and no names of machines or
// users, so the same commit always results in the same output. The messages are those of
// github.com/in-toto/attestation, and that module also checks them.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	b := build{Sums: map[string]string{}}
	var arch, dir string
	flag.StringVar(&b.Version, "version", "devel", "version of the release")
	flag.StringVar(&b.Commit, "commit", "", "commit of the release; empty if files of the checkout differ from it")
	flag.StringVar(&arch, "arch", "", "architectures of the release, as GOARCH")
	flag.StringVar(&b.Only, "only", "", "deb or rpm, if the release contains only packages of this format")
	flag.BoolVar(&b.Bundle, "bundle", true, "the release contains podrun-bundle")
	flag.BoolVar(&b.Node, "node", true, "the release contains podrun-node")
	flag.StringVar(&b.Nfpm, "nfpm", "", "module and version of the program that makes packages")
	flag.Func("binary", "path of the binary of podrun or podrun-node for one architecture; the provenance lists its modules; repeatable", b.readBinary)
	flag.Parse()
	dir, b.Archs = flag.Arg(0), strings.Fields(arch)
	if err := run(os.Stdout, b, dir); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

// run reads the checksums of the module's files in the current directory.
func run(w io.Writer, b build, dir string) error {
	for _, name := range []string{"go.sum", "embedded/bundle/go.sum"} {
		sum, err := digest(name)
		if err != nil {
			return err
		}
		b.Sums[name] = sum
	}
	var err error
	if b.Files, err = digests(dir); err != nil {
		return err
	}
	text, err := statement(b)
	if err != nil {
		return err
	}
	// protojson intentionally varies its spaces, so that programs do not depend on them.
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", " "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(w)
	return err
}

// readBinary adds the build information of a program to b.
func (b *build) readBinary(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	b.Go = info.GoVersion
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.addModule(module{m.Path, m.Version, m.Sum})
	}
	return nil
}

// digests returns the digests of the files in a directory, sorted by name.
func digests(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, e := range entries {
		sum, err := digest(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, file{e.Name(), sum})
	}
	return out, nil
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
