package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestRegistryTree checks that the files of an image are at the paths that agnhost's registry
// reads: the tag names a manifest, the manifest names the other files, and the name of each file is
// derived from its content.
func TestRegistryTree(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(program, []byte("p"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := programImage(program)
	if err != nil {
		t.Fatal(err)
	}
	files, err := registryTree("registry/pause", "testing", image)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{}
	for _, f := range files {
		contents[f.header.Name] = f.content
	}
	read := func(kind string, h v1.Hash) {
		t.Helper()
		content := contents["registry/pause/"+kind+"/sha256/"+h.Hex[:2]+"/"+h.Hex+"/data"]
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != h.Hex {
			t.Errorf("%s %s: the content is missing or different", kind, h)
		}
	}
	digest, err := v1.NewHash(string(contents["registry/pause/manifests/testing"]))
	if err != nil {
		t.Fatal(err)
	}
	read("manifests", digest)
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	read("blobs", manifest.Config.Digest)
	for _, layer := range manifest.Layers {
		read("blobs", layer.Digest)
	}
	if want := 2 + 1 + len(manifest.Layers); len(files) != want {
		t.Errorf("%d files, want %d", len(files), want)
	}
}
