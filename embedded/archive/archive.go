// Package archive is the container runtime that is in a binary with the build tag
// podrun_bundle; an ordinary build has none.
package archive

import (
	"io"
)

// Archive is a tar archive, compressed by zstd.
type Archive struct {
	Digest string // SHA-256 of the compressed archive, in hex
	Size   int64  // compressed, in bytes
}

// Reader reads the compressed archive.
func (a Archive) Reader() io.Reader { return reader() }

// Tar reads the archive, decompressed.
func (a Archive) Tar() (io.ReadCloser, error) { return decompressed() }
