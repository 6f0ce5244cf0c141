package fielddoc

import (
	_ "embed"
	"strings"
	"sync"
)

// claims is the table of docs/pod-fields.md. Each line has a path, a class and a note, with
// tabs between them. test/fields writes this table and docs/pod-fields.md.
//
//go:embed claims.txt
var claims string

// Supported is the class of fields that have the same effect as with a kubelet.
const Supported = "supported"

// Claim describes what podrun does with a field. The zero value means that podrun makes no claim.
type Claim struct {
	Class string // one of: Supported, refused, warned, no effect, left out
	Note  string // may be empty
}

// String returns the claim as one line.
func (c Claim) String() string {
	switch {
	case c.Note == "":
		return c.Class
	case c.Class == "":
		return c.Note
	}
	return c.Class + ": " + c.Note
}

// ofStatus is the claim about all fields of a pod's status.
var ofStatus = Claim{Note: "computed as in the kubelet; 'podrun get NAME -o yaml' prints it"}

var table = sync.OnceValue(func() map[string]Claim {
	out := map[string]Claim{}
	for line := range strings.Lines(claims) {
		path, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		class, note, _ := strings.Cut(rest, "\t")
		out[path] = Claim{class, note}
	}
	return out
})

// claim returns what podrun does with a field. It returns the zero value if podrun handles some of
// the fields inside the field differently.
func (f Field) claim() Claim {
	if f.path == "" {
		return Claim{Note: f.kind.Use}
	}
	c := claimOf(f.kind, f.path)
	if c.Class == Supported || c.Class == "" {
		return c
	}
	for _, one := range f.Fields() {
		if claimOf(f.kind, one.path).Class != c.Class {
			return Claim{}
		}
	}
	return c
}

// claimOf returns the claim about a field of a pod or a pod template. The result is the claim of
// the field itself or of its nearest ancestor in the table. If a field of an init container has no
// row in the table, claimOf uses the row of the same field of an app container.
func claimOf(k *Kind, path string) Claim {
	if k.Name != "Pod" {
		rest, ok := strings.CutPrefix(path, k.template)
		if !ok || k.template == "" {
			return Claim{}
		}
		path = rest
	}
	if path == "status" || strings.HasPrefix(path, "status.") {
		return ofStatus
	}
	claim, at := nearest(path)
	if rest, of := strings.CutPrefix(path, "spec.initContainers[]"); of && at == "spec.initContainers[]" && rest != "" {
		claim, _ = nearest("spec.containers[]" + rest)
	}
	return claim
}

// nearest returns the claim of a path, or that of its nearest ancestor in the table. It also
// returns the path of the claim.
func nearest(path string) (Claim, string) {
	for at := path; at != ""; {
		if c, ok := table()[at]; ok {
			return c, at
		}
		if list, ok := strings.CutSuffix(at, "[]"); ok {
			at = list
			continue
		}
		at = at[:max(0, strings.LastIndexByte(at, '.'))]
	}
	return Claim{}, ""
}
