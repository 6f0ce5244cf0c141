//go:build podrun_bundle

package archive

import (
	_ "embed" // the sum beside the archive
	"io"

	"github.com/klauspost/compress/zstd"
)

// Open gives the archive that this build carries; false in an ordinary build.
func Open() (Archive, bool) { return parse(data, sum, decode) }

// maxWindow bounds the memory of decompression: what hack/bundle compresses
// with, in bytes.
const maxWindow = 32 << 20

func decode(packed io.Reader) (io.ReadCloser, error) {
	r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return r.IOReadCloser(), nil
}
