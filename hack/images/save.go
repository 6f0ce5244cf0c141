package main

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// beforehand are the images that a runtime of the tests has from the start;
// hack/runtime pulls the same ones.
var beforehand = []string{"pause:3.9", "busybox:1.36", "busybox:nonroot", "busybox:username", "httpd:1"}

// save writes those images into one docker-archive.
func save(path, registry string, images map[string]remote.Taggable) error {
	out := map[name.Tag]v1.Image{}
	for _, ref := range beforehand {
		tag, err := name.NewTag(registry+"/"+ref, name.Insecure)
		if err != nil {
			return fmt.Errorf("save %s: %w", ref, err)
		}
		img, ok := images[ref].(v1.Image)
		if !ok {
			return fmt.Errorf("save %s: %T is no image", ref, images[ref])
		}
		out[tag] = img
	}
	if err := tarball.MultiWriteToFile(path, out); err != nil {
		return fmt.Errorf("save the images: %w", err)
	}
	return nil
}
