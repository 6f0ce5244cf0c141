//go:build podrun_bundle

package archive

import (
	// This embeds the file with the sum, which is next to the archive.
	_ "embed"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Open returns the archive in this build. In a build without one, it returns false.
func Open() (Archive, bool) { return parse(data, sum, decode) }

// maxWindow limits the memory for decompression, in bytes. It is the window size that
// hack/bundle uses for compression.
const maxWindow = 32 << 20

func decode(packed io.Reader) (io.ReadCloser, error) {
	r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return r.IOReadCloser(), nil
}
