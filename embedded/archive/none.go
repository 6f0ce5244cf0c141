//go:build !podrun_bundle

package archive

import (
	"errors"
	"io"
	"strings"
)

// Open returns the archive of this binary; false if it has none.
func Open() (Archive, bool) { return Archive{}, false }

func reader() io.Reader { return strings.NewReader("") }

func decompressed() (io.ReadCloser, error) { return nil, errors.New("this podrun has no archive") }
