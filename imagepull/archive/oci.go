package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/opencontainers/go-digest"
)

// nameNotes are the annotations of an OCI index that may name an image, in order of
// preference.
var nameNotes = []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"}

func (a *tarball) ociImages() ([]named, []blob, error) {
	var index document
	if err := a.document("index.json", &index); err != nil {
		return nil, nil, err
	}
	if len(index.Manifests) > maxEntries {
		return nil, nil, fmt.Errorf("index.json has more than %d entries", maxEntries)
	}
	var images []named
	var blobs []blob
	seen := map[string]*visit{}
	for _, d := range index.Manifests {
		if d.MediaType != "" && !isDocument(d.MediaType) {
			return nil, nil, fmt.Errorf("index.json: %s has the media type %q, which is not that of an image", d.Digest, d.MediaType)
		}
		image := named{target: d}
		for _, note := range nameNotes {
			if name := d.Annotations[note]; name != "" {
				image.names = append(image.names, name)
				break
			}
		}
		if err := a.walk(d, 0, seen, &blobs); err != nil {
			return nil, nil, err
		}
		var err error
		if image.platforms, err = a.platforms(d, 0); err != nil {
			return nil, nil, err
		}
		images = append(images, image)
	}
	return images, blobs, nil
}

// visit is how far walk has come with a blob, which it identifies by the digest.
type visit struct {
	mediaType string
	ended     bool
}

// walk appends a blob after its children. If an index refers to a manifest, the manifest may be
// missing, because an archive need not contain every platform.
//
// walk verifies the content, although containerd does so when it stores a blob: containerd ignores the content
// of a blob that it already has, so that an archive could give a digest another meaning.
func (a *tarball) walk(d descriptor, depth int, seen map[string]*visit, blobs *[]blob) error {
	if v := seen[d.Digest]; v != nil {
		switch {
		case !v.ended:
			return fmt.Errorf("blob %s points to itself", d.Digest)
		case v.mediaType != d.MediaType:
			return fmt.Errorf("blob %s has two media types, %q and %q", d.Digest, v.mediaType, d.MediaType)
		}
		return nil
	}
	v := &visit{mediaType: d.MediaType}
	seen[d.Digest] = v
	switch {
	case len(seen) > maxBlobs:
		return fmt.Errorf("it has more than %d blobs", maxBlobs)
	case depth > maxNesting:
		return fmt.Errorf("blob %s: indexes are nested more than %d deep", d.Digest, maxNesting)
	case d.MediaType == "":
		return fmt.Errorf("blob %s has no media type", d.Digest)
	}
	name := blobPath(d.Digest)
	s, ok := a.files[name]
	if !ok || s.size != d.Size {
		return fmt.Errorf("blob %s is missing or incomplete in the archive", d.Digest)
	}
	if err := a.verify(d.Digest, s); err != nil {
		return err
	}
	b := blob{desc: d, where: s}
	if isDocument(d.MediaType) {
		doc, err := a.entries(name)
		if err == nil {
			err = doc.check(d.MediaType)
		}
		if err != nil {
			return fmt.Errorf("blob %s: %w", d.Digest, err)
		}
		if doc.Config != nil {
			if _, err := a.platformOf(blobPath(doc.Config.Digest)); err != nil {
				return err
			}
			b.children = append(b.children, *doc.Config)
		}
		b.children = append(b.children, doc.Layers...)
		for _, m := range doc.Manifests {
			if _, ok := a.files[blobPath(m.Digest)]; ok {
				b.children = append(b.children, m)
			}
		}
		for _, c := range b.children {
			if err := a.walk(c, depth+1, seen, blobs); err != nil {
				return err
			}
		}
	}
	v.ended = true
	*blobs = append(*blobs, b)
	return nil
}

// verify compares the content of a file of the archive with its digest.
func (a *tarball) verify(sum string, s span) error {
	want, err := digest.Parse(sum)
	if err != nil {
		return fmt.Errorf("blob %q: %w", sum, err)
	}
	content := want.Verifier()
	if _, err := io.Copy(content, &counter{ctx: a.ctx, r: a.open(s)}); err != nil {
		return fmt.Errorf("blob %s: %w", sum, err)
	}
	if !content.Verified() {
		return fmt.Errorf("blob %s has another content: the archive is damaged or was manipulated", sum)
	}
	return nil
}

// check returns an error if a document is not what the media type of its descriptor says.
func (d document) check(mediaType string) error {
	switch {
	case d.MediaType != "" && d.MediaType != mediaType:
		return fmt.Errorf("its media type is %q, not %q", d.MediaType, mediaType)
	case isIndex(mediaType) && (d.Config != nil || len(d.Layers) > 0):
		return errors.New("is an index with a config or layers, which only a manifest has")
	case !isIndex(mediaType) && (d.Config == nil || len(d.Manifests) > 0):
		return errors.New("is a manifest without a config, or with manifests, which only an index has")
	}
	return nil
}

func blobPath(digest string) string {
	algorithm, hash, _ := bytes.Cut([]byte(digest), []byte(":"))
	return path.Join("blobs", string(algorithm), string(hash))
}

// isDocument reports whether a blob refers to other blobs.
func isDocument(mediaType string) bool {
	switch mediaType {
	case "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json":
		return true
	}
	return isIndex(mediaType)
}

// isIndex reports whether a document refers to manifests.
func isIndex(mediaType string) bool {
	switch mediaType {
	case "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json":
		return true
	}
	return false
}
