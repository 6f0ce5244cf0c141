package imagepull

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
)

// These are the labels that containerd sets on content that it has fetched.
const (
	labelSource   = "containerd.io/distribution.source."
	labelChildren = "containerd.io/gc.ref.content."
)

// manifests returns the manifests of a repository that are in the store.
func (w *watcher) manifests(ctx context.Context, from source) ([]manifest, error) {
	var out []manifest
	filter := `labels."` + labelSource + from.host + `",labels."` + labelChildren + `config"`
	err := w.list(ctx, []string{filter}, func(i *contentapi.Info) {
		if !slices.Contains(strings.Split(i.Labels[labelSource+from.host], ","), from.repository) {
			return
		}
		m := manifest{digest: i.Digest, updated: i.CreatedAt.AsTime()}
		// containerd 1.6 does not set UpdatedAt.
		if updated := i.UpdatedAt.AsTime(); updated.After(m.updated) {
			m.updated = updated
		}
		for key, digest := range i.Labels {
			if strings.HasPrefix(key, labelChildren) {
				m.blobs = append(m.blobs, digest)
			}
		}
		out = append(out, m)
	})
	return out, err
}

// present returns those of the given blobs that are complete in the store.
func (w *watcher) present(ctx context.Context, digests []string) []string {
	if len(digests) == 0 {
		return nil
	}
	var filters, out []string
	for _, digest := range digests {
		filters = append(filters, `digest=="`+digest+`"`)
	}
	// If the list fails, the next look at the store finds the blobs.
	_ = w.list(ctx, filters, func(i *contentapi.Info) { out = append(out, i.Digest) })
	return out
}

// list calls the content service's List method, and each for every blob in the response.
func (w *watcher) list(ctx context.Context, filters []string, each func(*contentapi.Info)) error {
	stream, err := w.content.List(ctx, &contentapi.ListContentRequest{Filters: filters})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, i := range answer.Info {
			each(i)
		}
	}
}

// maxManifest is the maximum size of an image's manifest in bytes. Registries have the same limit.
const maxManifest = 4 << 20

// manifestJSON contains the fields of an image manifest (OCI image-spec) that watcher.sizes
// uses.
type manifestJSON struct {
	Config *blobJSON  `json:"config"`
	Layers []blobJSON `json:"layers"`
}

type blobJSON struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // bytes
}

// sizes returns the sizes of the blobs in a manifest, or nil if the manifest cannot be read.
func (w *watcher) sizes(ctx context.Context, digest string) map[string]int64 {
	stream, err := w.content.Read(ctx, &contentapi.ReadContentRequest{Digest: digest, Size: 0})
	if err != nil {
		return nil
	}
	var data []byte
	for len(data) <= maxManifest {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil
		}
		data = append(data, answer.Data...)
	}
	var doc manifestJSON
	if json.Unmarshal(data, &doc) != nil || doc.Config == nil {
		return nil
	}
	sizes := map[string]int64{doc.Config.Digest: doc.Config.Size}
	for _, l := range doc.Layers {
		sizes[l.Digest] = l.Size
	}
	return sizes
}

// mayUnpack reports whether containerd may be unpacking an image of a repository whose content
// was already in the store. It checks whether the store has a manifest to which no image
// refers, because containerd names an image only after it has unpacked the image. It returns
// true if there is an error.
func (w *watcher) mayUnpack(ctx context.Context, from source) bool {
	found, err := w.manifests(ctx, from)
	if err != nil || len(found) == 0 {
		return err != nil
	}
	answer, err := w.images.List(ctx, &imagesapi.ListImagesRequest{})
	if err != nil {
		return true
	}
	unpacked := map[string]bool{}
	var indexes []string
	for _, i := range answer.GetImages() {
		unpacked[i.GetTarget().GetDigest()] = true
		if sourceOf(i.GetName()) == from {
			indexes = append(indexes, `digest=="`+i.GetTarget().GetDigest()+`"`)
		}
	}
	if len(indexes) > 0 {
		err = w.list(ctx, indexes, func(i *contentapi.Info) {
			for key, digest := range i.Labels {
				if strings.HasPrefix(key, labelChildren+"m.") {
					unpacked[digest] = true
				}
			}
		})
	}
	return err != nil || slices.ContainsFunc(found, func(m manifest) bool { return !unpacked[m.digest] })
}
