// Package sbom describes what programs are made of as a software bill of
// materials in the form of SPDX 2.3: each program, the Go modules that are linked
// into it, and its libraries. All of it is pure.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Document is an SPDX document, as JSON. Its namespace is unique to its content.
type Document struct {
	Version       string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      Creation       `json:"creationInfo"`
	Packages      []Package      `json:"packages"`
	Relationships []Relationship `json:"relationships"`
}

// Creation says when and by what a document was made.
type Creation struct {
	Created  string   `json:"created"` // RFC 3339, UTC, whole seconds
	Creators []string `json:"creators"`
}

// Package is a program, a Go module or a library.
type Package struct {
	ID               string      `json:"SPDXID"`
	Name             string      `json:"name"`
	Version          string      `json:"versionInfo"`
	Purpose          string      `json:"primaryPackagePurpose,omitempty"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	Concluded        string      `json:"licenseConcluded"`
	Declared         string      `json:"licenseDeclared"`
	Copyright        string      `json:"copyrightText"`
	Source           string      `json:"sourceInfo,omitempty"`
	Comment          string      `json:"comment,omitempty"` // of a Go module: its sum in go.sum, which is that of no single file
	Checksums        []Checksum  `json:"checksums,omitempty"`
	Refs             []Reference `json:"externalRefs,omitempty"`
}

// Checksum is of a program's file.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// Reference is a package URL.
type Reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// Relationship is between two packages, or the document and a program.
type Relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// documentID is the document within itself.
const documentID = "SPDXRef-DOCUMENT"

// Program is a program and what is linked into it.
type Program struct {
	Name, Version string
	License       string // SPDX expression; empty: not known
	SHA256        string // of the program's file in hex; empty: not known
	Modules       []Module
	Libraries     []Library
}

// Module is a Go module; "stdlib" is Go's own library.
type Module struct {
	Path, Version string
	Sum           string // as in go.sum: h1:…; empty: not known
	License       string // SPDX expression; empty: not known
}

// Library is a library that is not of Go, linked statically.
type Library struct {
	Name, Version string
	License       string // SPDX expression
	Source        string // where its source is
}

// New makes a document without packages. Print gives it its namespace.
func New(name string, created time.Time) Document {
	return Document{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: documentID, Name: name,
		Creation: Creation{Created: created.UTC().Format("2006-01-02T15:04:05Z"), Creators: []string{"Tool: podrun"}},
	}
}

// Modules gives the modules that a program was built with; those that were
// replaced as what they were replaced with.
func Modules(info *debug.BuildInfo) []Module {
	out := []Module{{Path: "stdlib", Version: info.GoVersion, License: "BSD-3-Clause"}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, Module{Path: m.Path, Version: m.Version, Sum: m.Sum})
	}
	return out
}

// Add adds a program. A module or library of several programs is one package.
func (d *Document) Add(p Program) {
	program := pack("program", p.Name, p.Version, p.License)
	program.Purpose = "APPLICATION"
	if p.SHA256 != "" {
		program.Checksums = []Checksum{{"SHA256", p.SHA256}}
	}
	d.add(program)
	d.relate(Relationship{documentID, "DESCRIBES", program.ID})
	for _, m := range p.Modules {
		module := pack("go", m.Path, m.Version, m.License)
		module.Purpose = "LIBRARY"
		module.Refs = []Reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")}}
		module.Comment = m.Sum
		d.add(module)
		d.relate(Relationship{program.ID, "DEPENDS_ON", module.ID})
	}
	for _, l := range p.Libraries {
		library := pack("library", l.Name, l.Version, l.License)
		library.Purpose, library.Source = "LIBRARY", l.Source
		d.add(library)
		d.relate(Relationship{program.ID, "STATIC_LINK", library.ID})
	}
}

// Join adds the packages of another document.
func (d *Document) Join(other Document) {
	for _, p := range other.Packages {
		d.add(p)
	}
	for _, r := range other.Relationships {
		d.relate(r)
	}
}

// Print writes the document as JSON. Its namespace has subject and a hash of what
// the document says, so that two documents share one only if they say the same.
func (d Document) Print(w io.Writer, subject string) error {
	content, err := json.Marshal([]any{d.Packages, d.Relationships})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	d.Namespace = "https://podrun.dev/spdx/" + subject + "-" + hex.EncodeToString(sum[:8])
	out := json.NewEncoder(w)
	out.SetIndent("", " ")
	return out.Encode(d)
}

// add keeps the packages in the order of IDs. Of two with one ID it keeps the
// one whose license is known.
func (d *Document) add(p Package) {
	at, found := slices.BinarySearchFunc(d.Packages, p.ID, func(have Package, id string) int { return cmp.Compare(have.ID, id) })
	switch {
	case !found:
		d.Packages = slices.Insert(d.Packages, at, p)
	case d.Packages[at].Declared == unknown:
		d.Packages[at] = p
	}
}

func (d *Document) relate(r Relationship) {
	if !slices.Contains(d.Relationships, r) {
		d.Relationships = append(d.Relationships, r)
	}
}

// unknown is SPDX's value for what was not determined.
const unknown = "NOASSERTION"

// unfit are the characters that an ID of SPDX may not have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func pack(kind, name, version, license string) Package {
	return Package{
		ID:   "SPDXRef-" + unfit.ReplaceAllString(kind+"-"+name+"-"+version, "-"),
		Name: name, Version: version, DownloadLocation: unknown,
		Concluded: unknown, Declared: cmp.Or(license, unknown), Copyright: unknown,
	}
}
