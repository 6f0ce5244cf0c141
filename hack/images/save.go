package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// beforehand are the images that every test runtime has from the beginning. hack/runtime pulls
// the same images.
var beforehand = []string{"pause:3.9", "busybox:1.36", "busybox:nonroot", "busybox:username", "httpd:1"}

// save writes each image of the variable beforehand to a separate docker-archive, because their
// order in a common archive would vary. Without a registry, each image has the same content as the
// image in the registry, but another ID, because a runtime removes an image with all its names: a
// test that removes one of the two images would otherwise also remove the other.
func save(dir, registry string, images map[string]remote.Taggable) error {
	for _, ref := range beforehand {
		tag, err := name.NewTag(strings.TrimPrefix(registry+"/"+ref, "/"), name.Insecure)
		if err != nil {
			return fmt.Errorf("save %s: %w", ref, err)
		}
		img, ok := images[ref].(v1.Image)
		if !ok {
			return fmt.Errorf("save %s: %T is not an image", ref, images[ref])
		}
		if registry == "" {
			if img, err = withConfig(img, func(c *v1.Config) { c.Labels = map[string]string{"podrun.example/from": "archive"} }); err != nil {
				return fmt.Errorf("save %s: %w", ref, err)
			}
		}
		path := filepath.Join(dir, strings.ReplaceAll(ref, ":", "-")+".tar")
		if err := tarball.WriteToFile(path, tag, img); err != nil {
			return fmt.Errorf("save %s: %w", ref, err)
		}
	}
	return nil
}
