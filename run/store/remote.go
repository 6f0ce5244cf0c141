package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/hostfile"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
)

// maxCopy bounds the copy of a remote source: its content as base64, and what is known
// of it.
const maxCopy = manifest.MaxSource/3*4 + 64<<10

// ReadRemoteCopy reads the last good content of a remote source by the name of its
// file; see source.Remotes.
func ReadRemoteCopy(layout identity.Layout, name string) ([]byte, error) {
	data, err := hostfile.ReadNoFollow(context.Background(), filepath.Join(layout.RemoteCopies(), name), maxCopy)
	if err != nil {
		return nil, err
	}
	content, _ := identity.CutSchema(data)
	return content, nil
}

// WriteRemoteCopy writes that file, synced: it is what a boot without a network has.
func WriteRemoteCopy(layout identity.Layout, name string, data []byte) error {
	err := os.MkdirAll(layout.RemoteCopies(), 0o750)
	if err == nil {
		err = WriteState(filepath.Join(layout.RemoteCopies(), name), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep a copy of a remote source: %w", err)
	}
	return nil
}

// RemoveOtherCopies removes the copies of remote sources that have none of these names:
// their URLs are sources no longer.
func RemoveOtherCopies(layout identity.Layout, names []string) error {
	entries, err := os.ReadDir(layout.RemoteCopies())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() && !slices.Contains(names, e.Name()) {
			errs = append(errs, os.Remove(filepath.Join(layout.RemoteCopies(), e.Name())))
		}
	}
	if err = errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("remove copies of URLs that are no sources any more: %w", err)
	}
	return nil
}
