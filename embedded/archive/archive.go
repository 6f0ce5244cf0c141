// Package archive contains the container runtime of podrun-bundle. It is a zstd-compressed tar
// with containerd, its shim, runc, network plugins and the pause image (docs/bundle.md). It is
// linked only with the build tag podrun_bundle. `make bundle` writes the files that such a
// build embeds.
package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Names of files in the archive. Sums is the first file. It has a line "hex name" for each
// other file, sorted by name. All names are relative and clean.
const (
	Sums = "SHA256SUMS"
	// a JSON object that maps components to versions; for "pause", the version is the name of the image
	Versions = "share/versions.json"
	Licenses = "share/licenses.txt"   // includes podrun's modules
	SBOM     = "share/sbom.spdx.json" // the SBOM of the archive alone
	Pause    = "images/pause.tar"     // a docker-archive
)

// Archive is the compressed archive.
type Archive struct {
	// SHA-256 digest of the compressed bytes in hex; it identifies this runtime
	Digest string
	Size   int64 // bytes, compressed
	// size of the tar in bytes, which is an upper bound of the total size of its files
	Unpacked int64

	data   string
	decode func(io.Reader) (io.ReadCloser, error)
}

// parse returns the archive with the embedded data. sum is "<digest> <bytes of the tar>".
func parse(data, sum string, decode func(io.Reader) (io.ReadCloser, error)) (Archive, bool) {
	digest, unpacked, ok := strings.Cut(strings.TrimSpace(sum), " ")
	size, err := strconv.ParseInt(unpacked, 10, 64)
	if !ok || err != nil || len(digest) != hex.EncodedLen(sha256.Size) {
		return Archive{}, false
	}
	return Archive{Digest: digest, Size: int64(len(data)), Unpacked: size, data: data, decode: decode}, true
}

// Reader returns a new reader of the compressed bytes.
func (a Archive) Reader() io.Reader { return strings.NewReader(a.data) }

// Verify compares the compressed bytes with the digest. It reads all of them, in about 50
// ms.
func (a Archive) Verify() error {
	sum := sha256.Sum256([]byte(a.data))
	if got := hex.EncodeToString(sum[:]); got != a.Digest {
		return fmt.Errorf("the embedded runtime is damaged: its SHA-256 is %s instead of %s: copy podrun-bundle again", got, a.Digest)
	}
	return nil
}

// Tar returns a new reader of the uncompressed tar. The caller must close it. While it is open,
// it uses about 40 MB of memory, mainly for the window of the decompression.
func (a Archive) Tar() (io.ReadCloser, error) {
	if a.decode == nil {
		return nil, errors.New("this build of podrun has no embedded runtime: use podrun-bundle")
	}
	return a.decode(a.Reader())
}

// File returns a file of up to limit bytes. The files that describe the archive (Sums, Versions,
// Licenses, SBOM) come first, so that reading one of them decompresses little data.
func (a Archive) File(name string, limit int64) ([]byte, error) {
	packed, err := a.Tar()
	if err != nil {
		return nil, err
	}
	// packed reads from memory, so closing it cannot fail.
	defer func() { _ = packed.Close() }()
	files := tar.NewReader(packed)
	for {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the embedded runtime has no file %s", name)
		case err != nil:
			return nil, fmt.Errorf("read %s of the embedded runtime: %w", name, err)
		case header.Name != name:
			continue
		case header.Size > limit:
			return nil, fmt.Errorf("%s of the embedded runtime has %d bytes, more than %d", name, header.Size, limit)
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return nil, fmt.Errorf("read %s of the embedded runtime: %w", name, err)
		}
		return data, nil
	}
}
