package archive

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/containerd/containerd/api/types"
)

// put stores a blob, and returns its digest.
func (d *daemon) put(text string) string {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
	d.records[digest], d.files[digest] = int64(len(text)), []byte(text)
	return digest
}

// TestHas checks that the ID of an image belongs only to the manifest or index that refers to its configuration.
func TestHas(t *testing.T) {
	d, conn := serve(t)
	config, other := d.put(`{"os":"linux"}`), d.put(`{"os":"plan9"}`)
	manifest := d.put(`{"config":{"digest":"` + config + `"}}`)
	index := d.put(`{"manifests":[{"digest":"sha256:absent"},{"digest":"` + manifest + `"}]}`)
	deep := index
	for range maxDepth {
		deep = d.put(`{"manifests":[{"digest":"` + deep + `"}]}`)
	}
	damaged := d.put(`{"config":{"digest":"` + other + `"}} `)
	d.files[damaged] = []byte(`{"config":{"digest":"` + config + `"}} `)
	d.images["web:1"] = &types.Descriptor{MediaType: "m", Digest: index, Size: 7}
	for name, c := range map[string]struct {
		digest, id string
		want       bool
	}{
		"manifest":        {manifest, config, true},
		"index":           {index, config, true},
		"another image":   {index, other, false},
		"the manifest":    {index, manifest, false},
		"no ID":           {manifest, "", false},
		"absent":          {"sha256:absent", config, false},
		"changed on disk": {damaged, config, false},
		"too deep":        {deep, config, false},
	} {
		if got, err := Has(t.Context(), conn, c.digest, c.id); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := TargetOf(t.Context(), conn, "web:1"); err != nil || got == nil || *got != (Target{"m", index, 7}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := TargetOf(t.Context(), conn, "web:2"); err != nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
