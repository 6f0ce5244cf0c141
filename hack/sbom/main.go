// Sbom prints the software bill of materials of a podrun for any architecture, as SPDX 2.3
// in JSON, from its build information:
//
//	go run ./hack/sbom -version 0.1.0 -arch arm64 podrun
//
// Its timestamp is SOURCE_DATE_EPOCH, so that the output is reproducible. `podrun
// version --sbom` prints it on its own architecture only.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/podrun/podrun/sbom"
)

func main() {
	version := flag.String("version", "devel", "version of the program")
	arch := flag.String("arch", "", "its `architecture`, as GOARCH")
	flag.Parse()
	if err := run(flag.Arg(0), *version, *arch); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(file, version, arch string) error {
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
	sum := sha256.Sum256(data)
	d := sbom.New("podrun "+version+" linux/"+arch, time.Unix(seconds, 0))
	d.Add(sbom.Program{Name: info.Main.Path, Version: version, License: "Apache-2.0", SHA256: hex.EncodeToString(sum[:]), Modules: sbom.Modules(info)})
	return d.Print(os.Stdout, "podrun-"+arch)
}
