// Sbom prints the software bill of materials of a Go program, from what the compiler
// recorded in it, as SPDX 2.3 in JSON:
//
//	go run ./hack/sbom -version 0.1.0 bin/podrun
//
// The time in it is SOURCE_DATE_EPOCH, so that the same program has the same bill.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

func main() {
	version := flag.String("version", "devel", "version of the program")
	flag.Parse()
	if err := run(flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(file, version string) error {
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
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(bill(info, version, hex.EncodeToString(sum[:]), time.Unix(seconds, 0).UTC()))
}

// document is a document of SPDX 2.3 with the fields that it requires.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	ID               string      `json:"SPDXID"`
	Name             string      `json:"name"`
	Version          string      `json:"versionInfo"`
	Location         string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	LicenseConcluded string      `json:"licenseConcluded"`
	LicenseDeclared  string      `json:"licenseDeclared"`
	Checksums        []checksum  `json:"checksums,omitempty"`
	Comment          string      `json:"comment,omitempty"` // the sum of the module in go.sum
	References       []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const none = "NOASSERTION"

// bill makes the document of a program with this SHA-256 sum.
func bill(info *debug.BuildInfo, version, sum string, created time.Time) document {
	const root = "SPDXRef-program"
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "podrun-" + version,
		Namespace: "https://podrun.dev/spdx/" + sum,
		Creation:  creation{Created: created.Format(time.RFC3339), Creators: []string{"Tool: podrun-hack-sbom"}},
		Packages: []pkg{{ID: root, Name: info.Main.Path, Version: version, Location: none, LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0",
			Checksums: []checksum{{"SHA256", sum}}, References: purl(info.Main.Path, version)}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root}},
	}
	add := func(name, version, sum, locator string) {
		id := fmt.Sprintf("SPDXRef-%d", len(d.Packages))
		p := pkg{ID: id, Name: name, Version: version, Location: none, LicenseConcluded: none, LicenseDeclared: none, Comment: sum, References: purl(locator, version)}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{root, "DEPENDS_ON", id})
	}
	add("Go standard library", info.GoVersion, "", "stdlib")
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, m.Sum, m.Path)
	}
	return d
}

// purl is a module's package URL.
func purl(module, version string) []reference {
	return []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module + "@" + version}}
}
