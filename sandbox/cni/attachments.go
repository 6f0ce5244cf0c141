package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/internal/hostfile"
)

// ResultsDir is where libcni keeps attachments.
const ResultsDir = "/var/lib/cni/results"

// maxResult bounds a file of libcni's, in bytes, and maxResults how many are read.
const (
	maxResult  = 1 << 20
	maxResults = 20_000
)

// ReadAttachments reads the cached results in ResultsDir. A file that cannot be read, or
// has another format, is left out.
func ReadAttachments(ctx context.Context) ([]Attachment, error) {
	return readAttachments(ctx, ResultsDir)
}

func readAttachments(ctx context.Context, dir string) ([]Attachment, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the attachments of network plugins: %w", err)
	}
	var out []Attachment
	for _, e := range entries[:min(len(entries), maxResults)] {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		path := filepath.Join(dir, e.Name())
		data, err := hostfile.ReadNoFollow(ctx, path, maxResult)
		if err != nil {
			continue // removed since then, or not a regular file
		}
		if a, ok := Parse(path, data); ok {
			out = append(out, a)
		}
	}
	return out, nil
}
