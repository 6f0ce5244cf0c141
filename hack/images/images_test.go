package main

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestImagesDiffer checks that no two images have the same ID. A runtime removes an image with
// all its names, so other tests that share the runtime would lose their images.
func TestImagesDiffer(t *testing.T) {
	bin := t.TempDir()
	for name, text := range map[string]string{"pause": "p", "httpd": "h", "busybox": "#!/bin/sh\necho bin/ls\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	images, err := build(bin, filepath.Join(bin, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[v1.Hash]string{}
	add := func(name string, image v1.Image) {
		id, err := image.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if other := names[id]; other != "" {
			t.Errorf("%s and %s have the same ID", name, other)
		}
		names[id] = name
	}
	for name, image := range images {
		if image, ok := image.(v1.Image); ok {
			add(name, image)
		}
	}
	if err := save(bin, "", images); err != nil {
		t.Fatal(err)
	}
	archive, err := tarball.ImageFromPath(filepath.Join(bin, "busybox-1.36.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	add("the archive of busybox:1.36", archive)
}
