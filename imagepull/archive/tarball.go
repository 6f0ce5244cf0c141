// Package archive loads images into containerd from an archive: a tar that contains a
// docker-archive or an OCI image layout. Archives are untrusted input: the package limits the size
// and number of the files that it reads from them.
package archive

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// tarball is an image archive on disk, with the positions of its files.
type tarball struct {
	// context of the load; when it ends, hashing and listing of the archive also end
	ctx   context.Context
	file  *os.File
	files map[string]span
	// has contains the platforms of the documents that were read so far. made contains the blobs
	// for the files of a docker-archive. The keys of both are file names.
	has  map[string][]platform
	made map[string]blob
}

// span is a part of a file, in bytes.
type span struct{ at, size int64 }

// descriptor identifies a blob, as in OCI's image-spec.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

// document is an index or a manifest: the two kinds of blobs that refer to other blobs.
type document struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

// blob is a blob that Load writes to the runtime: a part of the archive, or generated data.
type blob struct {
	desc  descriptor
	where span
	// if not nil, the content of the blob, which Load uses instead of where
	data     []byte
	children []descriptor
}

// named is an image in an archive, with its names in the archive.
type named struct {
	target    descriptor
	names     []string
	platforms []platform // the platforms of the image whose content is in the archive
}

// Limits on an archive. Docker limits an image to 127 layers. An index has one entry per
// platform.
const (
	maxDocument = 4 << 20 // size of an index, a manifest or a config, in bytes
	maxFiles    = 100000  // number of files in the tar, including links
	maxBlobs    = 10000   // number of blobs of all images
	maxEntries  = 1000    // number of entries of an index, or of layers of a manifest
	maxNesting  = 8       // depth of nested indexes
)

// readTarball finds the files in a tar. It follows links, because old versions of docker wrote a
// link if a layer occurred a second time.
func readTarball(ctx context.Context, f *os.File) (*tarball, error) {
	a := &tarball{ctx: ctx, file: f, files: map[string]span{}, has: map[string][]platform{}, made: map[string]blob{}}
	links := map[string]string{}
	counted := &counter{ctx: ctx, r: f}
	r := tar.NewReader(counted)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("is not a tar archive: %w", err)
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

// counter counts the bytes that were read. When its context has ended, reads fail.
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

// open returns a reader for a part of the archive.
func (a *tarball) open(s span) io.Reader { return io.NewSectionReader(a.file, s.at, s.size) }

// document parses a JSON file in the archive.
func (a *tarball) document(name string, into any) error {
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

// entries parses an index or a manifest.
func (a *tarball) entries(name string) (document, error) {
	var doc document
	err := a.document(name, &doc)
	if err == nil && len(doc.Manifests)+len(doc.Layers) > maxEntries {
		err = fmt.Errorf("%s has more than %d entries", name, maxEntries)
	}
	return doc, err
}

// images returns the images in the archive, and their blobs. Each blob comes after its
// children.
func (a *tarball) images() ([]named, []blob, error) {
	if a.isOCI() {
		return a.ociImages()
	}
	if _, ok := a.files["manifest.json"]; ok {
		return a.dockerImages()
	}
	return nil, nil, errors.New("has neither an index.json nor a manifest.json: not an OCI archive or a docker-archive")
}

// isOCI reports whether the archive is an OCI layout.
func (a *tarball) isOCI() bool {
	_, ok := a.files["index.json"]
	return ok
}
