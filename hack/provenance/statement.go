package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	predicateType = "https://slsa.dev/provenance/v1"
	// docs/release.md describes both constants.
	buildType = "https://podrun.dev/release/v1"
	builderID = "https://podrun.dev/release/checkout/v1"
)

// build contains the inputs of a release.
type build struct {
	Version string
	// empty if the files differ from those of the commit
	Commit  string
	Archs   []string
	Only    string // deb or rpm, if the release contains only packages of this format
	Bundle  bool   // true if the release contains podrun-bundle
	Node    bool   // true if the release contains podrun-node
	Go      string // version of the toolchain
	Nfpm    string // in the format PATH@VERSION
	Modules []module
	// SHA-256 digests of go.sum and embedded/bundle/go.sum, by path
	Sums  map[string]string
	Files []file
}

// module is a Go module that is linked into podrun or podrun-node. Its sum is as in go.sum.
type module struct{ path, version, sum string }

// file is a file of the release and its SHA-256 digest in hex.
type file struct{ name, sha256 string }

// addModule adds a module to the list, unless the list already contains it. It keeps the list
// sorted by path.
func (b *build) addModule(m module) {
	at, found := slices.BinarySearchFunc(b.Modules, m, func(x, y module) int {
		return cmp.Or(cmp.Compare(x.path, y.path), cmp.Compare(x.version, y.version))
	})
	if !found {
		b.Modules = slices.Insert(b.Modules, at, m)
	}
}

// statement returns the statement as JSON. It is pure.
func statement(b build) ([]byte, error) {
	dependencies, err := b.dependencies()
	if err != nil {
		return nil, err
	}
	parameters, err := structpb.NewStruct(map[string]any{
		"version": b.Version, "architectures": strings.Join(b.Archs, " "), "only": b.Only, "bundle": b.Bundle, "node": b.Node,
	})
	if err != nil {
		return nil, err
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: buildType, ExternalParameters: parameters, ResolvedDependencies: dependencies},
		RunDetails:      &provenance.RunDetails{Builder: &provenance.Builder{Id: builderID}},
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(p)
	if err != nil {
		return nil, err
	}
	predicate := &structpb.Struct{}
	if err := protojson.Unmarshal(text, predicate); err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateType, Predicate: predicate}
	for _, f := range b.Files {
		s.Subject = append(s.Subject, &intoto.ResourceDescriptor{Name: f.name, Digest: map[string]string{"sha256": f.sha256}})
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return protojson.Marshal(s)
}

// dependencies returns the commit, the files that pin its modules, the tools, and the modules
// that are linked into podrun. (The modules of podrun-bundle's programs are in its bill of
// materials.)
func (b *build) dependencies() ([]*intoto.ResourceDescriptor, error) {
	source := &intoto.ResourceDescriptor{Name: "source", Uri: "git+https://github.com/podrun/podrun"}
	if b.Commit != "" {
		source.Digest = map[string]string{"gitCommit": b.Commit}
	}
	out := []*intoto.ResourceDescriptor{source}
	for _, name := range []string{"go.sum", "embedded/bundle/go.sum"} {
		out = append(out, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": b.Sums[name]}})
	}
	out = append(out, &intoto.ResourceDescriptor{Name: "go", Uri: "pkg:generic/go@" + strings.TrimPrefix(b.Go, "go")})
	if b.Nfpm != "" {
		out = append(out, &intoto.ResourceDescriptor{Name: "nfpm", Uri: "pkg:golang/" + b.Nfpm})
	}
	for _, m := range b.Modules {
		hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:"))
		if err != nil || !strings.HasPrefix(m.sum, "h1:") {
			return nil, fmt.Errorf("module %s@%s: the sum %q is not of the form h1:BASE64", m.path, m.version, m.sum)
		}
		out = append(out, &intoto.ResourceDescriptor{
			Uri:    "pkg:golang/" + m.path + "@" + strings.ReplaceAll(m.version, "+", "%2B"),
			Digest: map[string]string{"dirHash": hex.EncodeToString(hash)},
		})
	}
	return out, nil
}
