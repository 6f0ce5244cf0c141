// Sbom prints the software bill of materials of a Go program, from what the compiler
// recorded in it, as SPDX 2.3 in JSON:
//
//	go run ./hack/sbom -version 0.1.0 bin/podrun
//
// The time in it is SOURCE_DATE_EPOCH, so that the same program has the same bill.
// `podrun version --sbom` prints that of a podrun that runs here, with the embedded
// runtime.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/podrun/podrun/sbom"
)

func main() {
	version := flag.String("version", "devel", "version of the program")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, file, version string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	name := path.Base(info.Main.Path)
	sum := sha256.Sum256(data)
	d := sbom.New(name+" "+version, time.Unix(seconds, 0))
	d.Add(sbom.Program{Name: name, Version: version, License: "Apache-2.0", SHA256: hex.EncodeToString(sum[:]), Modules: sbom.Modules(info)})
	return d.Print(out, name)
}
