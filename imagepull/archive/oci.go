package archive

import (
	"bytes"
	"fmt"
	"path"
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
	seen := map[string]bool{}
	for _, d := range index.Manifests {
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

// walk appends a blob after its children. If an index refers to a manifest, the manifest may be
// missing, because an archive need not contain every platform.
func (a *tarball) walk(d descriptor, depth int, seen map[string]bool, blobs *[]blob) error {
	if whole, ok := seen[d.Digest]; ok && !whole {
		return fmt.Errorf("blob %s points to itself", d.Digest)
	} else if ok {
		return nil
	}
	seen[d.Digest] = false
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
	b := blob{desc: d, where: s}
	if isDocument(d.MediaType) {
		doc, err := a.entries(name)
		if err != nil {
			return err
		}
		if doc.Config != nil {
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
	seen[d.Digest] = true
	*blobs = append(*blobs, b)
	return nil
}

func blobPath(digest string) string {
	algorithm, hash, _ := bytes.Cut([]byte(digest), []byte(":"))
	return path.Join("blobs", string(algorithm), string(hash))
}

// isDocument reports whether a blob refers to other blobs.
func isDocument(mediaType string) bool {
	switch mediaType {
	case "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
		"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json":
		return true
	}
	return false
}
