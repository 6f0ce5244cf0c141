package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// tree is the content of a layer. Parent directories may be omitted; they belong to root and have
// mode 0755.
type tree []entry

// entry is a file, directory or symbolic link. Its path does not begin with a slash.
type entry struct {
	header  tar.Header
	content []byte
}

func file(name string, mode int64, content []byte) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content: content}
}

func dir(name string, mode int64) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}}
}

func link(name, target string) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

// owned returns the entry with the given ID as its user and group.
func (e entry) owned(id int) entry {
	e.header.Uid, e.header.Gid = id, id
	return e
}

// layer packs the tree into a layer.
func (t tree) layer() (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	written := map[string]bool{".": true}
	for _, e := range t {
		if err := writeEntry(w, e, written); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.header.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack a layer: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	})
}

// writeEntry writes an entry and its missing parent directories.
func writeEntry(w *tar.Writer, e entry, written map[string]bool) error {
	if parent := path.Dir(e.header.Name); !written[parent] {
		if err := writeEntry(w, dir(parent, 0o755), written); err != nil {
			return err
		}
	}
	written[e.header.Name] = true
	if err := w.WriteHeader(&e.header); err != nil {
		return err
	}
	_, err := w.Write(e.content)
	return err
}
