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

// ResultsDir is the directory in which libcni stores attachments.
const ResultsDir = "/var/lib/cni/results"

// maxResult limits the size of libcni's files, in bytes. maxResults limits the number of files that
// podrun reads.
const (
	maxResult  = 1 << 20
	maxResults = 20_000
)

// ReadAttachments reads the cached results in ResultsDir. It skips files that it cannot read or
// that have another format.
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
			// The file was removed after it was listed, or is not a regular file.
			continue
		}
		if a, ok := Parse(path, data); ok {
			out = append(out, a)
		}
	}
	return out, nil
}
