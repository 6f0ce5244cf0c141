package fielddoc

import (
	_ "embed"
	"strings"
	"sync"
)

// claims is what docs/pod-fields.md says, a line a row: path, class and note, separated
// by tabs. test/fields writes both.
//
//go:embed claims.txt
var claims string

// Supported is the class of a field that has the effect that it has on a kubelet.
const Supported = "supported"

// Claim is what podrun does with a field. The zero value says nothing.
type Claim struct {
	Class string // Supported, refused, warned, no effect or left out
	Note  string // may be empty
}

// String is the claim as one line.
func (c Claim) String() string {
	switch {
	case c.Note == "":
		return c.Class
	case c.Class == "":
		return c.Note
	}
	return c.Class + ": " + c.Note
}

// ofStatus is the claim of all fields of a pod's status.
var ofStatus = Claim{Note: "computed as by the kubelet; 'podrun get NAME -o yaml' prints it"}

var table = sync.OnceValue(func() map[string]Claim {
	out := map[string]Claim{}
	for line := range strings.Lines(claims) {
		path, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		class, note, _ := strings.Cut(rest, "\t")
		out[path] = Claim{class, note}
	}
	return out
})

// claim is what podrun does with a field; there is none for one whose fields are
// handled otherwise than the row it is below says.
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

// claimOf is the claim about a field of a pod or a pod template: that of the longest path
// that it is below, and for an init container's field the claim about a container's
// unless it has a row of its own.
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

// nearest is the claim of a path or of the longest one that it is below, and that path.
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
