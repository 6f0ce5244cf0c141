//go:build podrun_bundle

package archive

import (
	_ "embed" // for the sum, next to the archive
	"io"

	"github.com/klauspost/compress/zstd"
)

// Open returns the archive in this build, or false in a build without one.
func Open() (Archive, bool) { return parse(data, sum, decode) }

// maxWindow limits the memory for decompression, in bytes; it is the window size with
// which hack/bundle compresses.
const maxWindow = 32 << 20

func decode(packed io.Reader) (io.ReadCloser, error) {
	r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return r.IOReadCloser(), nil
}
