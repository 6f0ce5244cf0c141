// Package spdx describes programs in a software bill of materials in SPDX 2.3 format. It describes
// each program, the Go modules that are linked into the program, and the program's libraries. It
// uses the types of github.com/spdx/tools-golang. The whole package is pure. podrun does not link
// it, but embeds its output (package sbom).
package spdx

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"io"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// Document is an SPDX document. Its namespace is unique for its content.
type Document struct{ v2_3.Document }

// documentID is the ID of the document within itself.
const documentID = "DOCUMENT"

// Program is a program with the modules and libraries that are linked into it.
type Program struct {
	Name, Version string
	License       string // SPDX expression; empty if unknown
	// digest of the program's file in hex; empty if unknown
	SHA256    string
	Modules   []Module
	Libraries []Library
}

// Module is a Go module. "stdlib" is Go's standard library.
type Module struct {
	Path, Version string
	Sum           string // in the format of go.sum: h1:…; empty if unknown
	License       string // SPDX expression; empty if unknown
}

// Library is a statically linked library that is not written in Go.
type Library struct {
	Name, Version string
	License       string // SPDX expression
	Source        string // Debian's source package: NAME=VERSION
}

// New returns a document without packages. Print sets its namespace.
func New(name string, created time.Time) Document {
	return Document{v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: documentID, DocumentName: name,
		CreationInfo: &v2_3.CreationInfo{
			Created:  created.UTC().Format("2006-01-02T15:04:05Z"),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "podrun"}},
		},
	}}
}

// Stdlib returns the standard library of a Go version.
func Stdlib(goVersion string) Module {
	return Module{Path: "stdlib", Version: goVersion, License: "BSD-3-Clause"}
}

// Modules returns the modules with which a program was built. If a module was replaced, it
// returns the replacement.
func Modules(info *debug.BuildInfo) []Module {
	out := []Module{Stdlib(info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, Module{Path: m.Path, Version: m.Version, Sum: m.Sum})
	}
	return out
}

// Add adds a program. A module or library that several programs use is only one package.
func (d *Document) Add(p Program) {
	program := pack("program", p.Name, p.Version, p.License)
	program.PrimaryPackagePurpose = "APPLICATION"
	if p.SHA256 != "" {
		program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.SHA256}}
	}
	d.add(program)
	d.relate(documentID, common.TypeRelationshipDescribe, program.PackageSPDXIdentifier)
	for _, m := range p.Modules {
		module := pack("go", m.Path, m.Version, m.License)
		module.PrimaryPackagePurpose = "LIBRARY"
		module.PackageExternalReferences = purl("golang/", m.Path, m.Version, "")
		// The sum of a module cannot be a PackageChecksum, because it is not the hash of a single file.
		module.PackageComment = m.Sum
		d.add(module)
		d.relate(program.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, module.PackageSPDXIdentifier)
	}
	for _, l := range p.Libraries {
		library := pack("library", l.Name, l.Version, l.License)
		library.PrimaryPackagePurpose, library.PackageSourceInfo = "LIBRARY", l.Source
		if name, version, ok := strings.Cut(l.Source, "="); ok {
			library.PackageExternalReferences = purl("deb/debian/", name, version, "?arch=source")
		}
		d.add(library)
		d.relate(program.PackageSPDXIdentifier, common.TypeRelationshipStaticLink, library.PackageSPDXIdentifier)
	}
}

// purl returns the package URL of a package.
func purl(kind, name, version, qualifiers string) []*v2_3.PackageExternalReference {
	return []*v2_3.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
		Locator: "pkg:" + kind + name + "@" + strings.NewReplacer("+", "%2B", ":", "%3A").Replace(version) + qualifiers,
	}}
}

// Read reads a document.
func Read(r io.Reader) (Document, error) {
	var d Document
	err := json.ReadInto(r, &d.Document)
	return d, err
}

// Join adds the packages of another document.
func (d *Document) Join(other Document) {
	for _, p := range other.Packages {
		d.add(p)
	}
	for _, r := range other.Relationships {
		d.relate(r.RefA.ElementRefID, r.Relationship, r.RefB.ElementRefID)
	}
}

// Print writes the document as JSON. Its namespace consists of subject and a hash of the content.
// Therefore two documents have the same namespace only if they have the same content.
func (d Document) Print(w io.Writer, subject string) error {
	content, err := stdjson.Marshal([]any{d.Packages, d.Relationships})
	if err != nil {
		return err
	}
	if err := spdxlib.ValidateDocument(&d.Document); err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	d.DocumentNamespace = "https://podrun.dev/spdx/" + subject + "-" + hex.EncodeToString(sum[:8])
	return json.Write(d.Document, w, json.Indent(" "))
}

// add adds a package, and keeps the packages sorted by ID. If two packages have the same ID, it
// keeps the one whose license is known.
func (d *Document) add(p *v2_3.Package) {
	at, found := slices.BinarySearchFunc(d.Packages, p.PackageSPDXIdentifier, func(have *v2_3.Package, id common.ElementID) int {
		return cmp.Compare(have.PackageSPDXIdentifier, id)
	})
	switch {
	case !found:
		d.Packages = slices.Insert(d.Packages, at, p)
	case d.Packages[at].PackageLicenseDeclared == unknown:
		d.Packages[at] = p
	}
}

func (d *Document) relate(from common.ElementID, kind string, to common.ElementID) {
	r := v2_3.Relationship{RefA: common.DocElementID{ElementRefID: from}, Relationship: kind, RefB: common.DocElementID{ElementRefID: to}}
	if !slices.ContainsFunc(d.Relationships, func(have *v2_3.Relationship) bool { return *have == r }) {
		d.Relationships = append(d.Relationships, &r)
	}
}

// unknown is SPDX's value for data that could not be determined.
const unknown = "NOASSERTION"

// unfit matches the characters that an SPDX ID must not contain.
var unfit = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func pack(kind, name, version, license string) *v2_3.Package {
	return &v2_3.Package{
		PackageSPDXIdentifier: common.ElementID(unfit.ReplaceAllString(kind+"-"+name+"-"+version, "-")),
		PackageName:           name, PackageVersion: version, PackageDownloadLocation: unknown,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: cmp.Or(license, unknown), PackageCopyrightText: unknown,
	}
}
