package imagepull

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// archive is an image archive on disk: where each of its files lies.
type archive struct {
	ctx   context.Context // of the load: hashing and listing gigabytes ends with it
	file  *os.File
	files map[string]span
	// has are the platforms of the documents that have been read, made the blobs
	// of a docker-archive's files, each by name.
	has  map[string][]platform
	made map[string]blob
}

// span is a part of a file, in bytes.
type span struct{ at, size int64 }

// descriptor names a blob, as in OCI's image-spec.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

// document is an index or a manifest: what blobs point to others.
type document struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

// blob is one blob to be put into a runtime: a span of the archive, or bytes that
// were made of it.
type blob struct {
	desc     descriptor
	where    span
	data     []byte // instead of where
	children []descriptor
}

// named is an image of an archive, and the names that it has there.
type named struct {
	target    descriptor
	names     []string
	platforms []platform // that the archive has it for
}

// What an archive may have. An image has 127 layers at most with docker, and an
// index one entry for a platform.
const (
	maxDocument = 4 << 20 // of an index, a manifest or a config, in bytes
	maxFiles    = 100000  // in the tar, links included
	maxBlobs    = 10000   // of all images
	maxEntries  = 1000    // of one index, or layers of one manifest
	maxNesting  = 8       // of indexes in indexes
)

// readArchive finds the files of a tar. Links are followed, as old dockers write
// a layer that is there twice.
func readArchive(ctx context.Context, f *os.File) (*archive, error) {
	a := &archive{ctx: ctx, file: f, files: map[string]span{}, has: map[string][]platform{}, made: map[string]blob{}}
	links := map[string]string{}
	counted := &counter{ctx: ctx, r: f}
	r := tar.NewReader(counted)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("is no tar archive: %w", err)
		}
		if len(a.files)+len(links) >= maxFiles {
			return nil, fmt.Errorf("it has more than %d files", maxFiles)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			a.files[name] = span{counted.n, h.Size}
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			links[name] = path.Clean(h.Linkname)
		}
	}
	for name, target := range links {
		if s, ok := a.files[target]; ok {
			a.files[name] = s
		}
	}
	return a, nil
}

// counter counts what is read, until its context ends.
type counter struct {
	ctx context.Context
	r   io.Reader
	n   int64
}

func (c *counter) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// open reads a part of the archive.
func (a *archive) open(s span) io.Reader { return io.NewSectionReader(a.file, s.at, s.size) }

// document reads a JSON file of the archive.
func (a *archive) document(name string, into any) error {
	s, ok := a.files[name]
	if !ok {
		return fmt.Errorf("%s is not in the archive", name)
	}
	if s.size > maxDocument {
		return fmt.Errorf("%s is longer than %d bytes", name, maxDocument)
	}
	data, err := io.ReadAll(a.open(s))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// entries reads an index or a manifest.
func (a *archive) entries(name string) (document, error) {
	var doc document
	err := a.document(name, &doc)
	if err == nil && len(doc.Manifests)+len(doc.Layers) > maxEntries {
		err = fmt.Errorf("%s has more than %d entries", name, maxEntries)
	}
	return doc, err
}

// images finds what is in the archive: its images, and the blobs that they are
// made of, each after those that it points to.
func (a *archive) images() ([]named, []blob, error) {
	if _, ok := a.files["index.json"]; ok {
		return a.ociImages()
	}
	if _, ok := a.files["manifest.json"]; ok {
		return a.dockerImages()
	}
	return nil, nil, errors.New("has neither an index.json nor a manifest.json: it is no OCI archive and no docker-archive")
}

// nameNotes are the annotations of an OCI index that name an image, the best
// first.
var nameNotes = []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"}

func (a *archive) ociImages() ([]named, []blob, error) {
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

// walk adds a blob and those below it. What an index points to may be missing:
// an archive need not have every platform.
func (a *archive) walk(d descriptor, depth int, seen map[string]bool, blobs *[]blob) error {
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
		return fmt.Errorf("blob %s is not in the archive, or not whole", d.Digest)
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

// isDocument tells whether a blob points to others.
func isDocument(mediaType string) bool {
	switch mediaType {
	case "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
		"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json":
		return true
	}
	return false
}

// dockerImages reads what docker save wrote before it wrote OCI's layout.
func (a *archive) dockerImages() ([]named, []blob, error) {
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := a.document("manifest.json", &list); err != nil {
		return nil, nil, err
	}
	var images []named
	var blobs []blob
	for _, entry := range list {
		config, err := a.blobOf(entry.Config, "application/vnd.docker.container.image.v1+json")
		if err != nil {
			return nil, nil, err
		}
		if len(entry.Layers) > maxEntries || len(blobs) > maxBlobs {
			return nil, nil, fmt.Errorf("manifest.json has an image with more than %d layers, or more than %d blobs", maxEntries, maxBlobs)
		}
		doc := document{SchemaVersion: 2, MediaType: "application/vnd.docker.distribution.manifest.v2+json", Config: &config.desc}
		blobs = append(blobs, config)
		for _, name := range entry.Layers {
			layer, err := a.blobOf(name, "application/vnd.docker.image.rootfs.diff.tar")
			if err != nil {
				return nil, nil, err
			}
			blobs, doc.Layers = append(blobs, layer), append(doc.Layers, layer.desc)
		}
		data, err := json.Marshal(doc)
		if err != nil {
			return nil, nil, err
		}
		sum := sha256.Sum256(data)
		target := descriptor{MediaType: doc.MediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(data))}
		blobs = append(blobs, blob{desc: target, data: data, children: append([]descriptor{config.desc}, doc.Layers...)})
		platforms, err := a.platformOf(path.Clean(entry.Config))
		if err != nil {
			return nil, nil, err
		}
		images = append(images, named{target: target, names: entry.RepoTags, platforms: platforms})
	}
	return images, blobs, nil
}

// blobOf makes a blob of a file; layers may be packed by gzip. A file is hashed
// once, however many images have it.
func (a *archive) blobOf(name, mediaType string) (blob, error) {
	name = path.Clean(name)
	if b, ok := a.made[name]; ok {
		return b, nil
	}
	s, ok := a.files[name]
	if !ok {
		return blob{}, fmt.Errorf("%s is not in the archive", name)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, &counter{ctx: a.ctx, r: a.open(s)}); err != nil {
		return blob{}, fmt.Errorf("%s: %w", name, err)
	}
	magic := make([]byte, 2)
	if n, _ := io.ReadFull(a.open(s), magic); n == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		mediaType += ".gzip"
	}
	b := blob{where: s, desc: descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(hash.Sum(nil)), Size: s.size}}
	a.made[name] = b
	return b, nil
}
