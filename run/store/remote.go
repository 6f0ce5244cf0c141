package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// maxCopy limits the size of a copy of a remote source, in bytes: its content in base64, and metadata.
const maxCopy = manifest.MaxSource/3*4 + 64<<10

// ReadRemoteCopy reads the copy with the given file name: the last valid content of a remote source
// (source.Remotes).
func ReadRemoteCopy(layout identity.Layout, name string) ([]byte, error) {
	data, err := hostfile.ReadNoFollow(context.Background(), filepath.Join(layout.SecretCopies(), name), maxCopy)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = hostfile.ReadNoFollow(context.Background(), filepath.Join(layout.RemoteCopies(), name), maxCopy)
	}
	if err != nil {
		return nil, err
	}
	content, _ := identity.CutSchema(data)
	return content, nil
}

// WriteRemoteCopy writes a copy of a remote source. If podrun keeps Secrets in memory, it also keeps
// the copy in memory, because the copy may contain Secrets. Otherwise it writes and syncs the copy on
// disk, because podrun uses the copy when the host boots without a network. WriteRemoteCopy removes an
// earlier copy in the other place.
func WriteRemoteCopy(layout identity.Layout, name string, data []byte, inMemory bool) error {
	disk, memory := filepath.Join(layout.RemoteCopies(), name), layout.SecretCopies()
	var err error
	if inMemory {
		err = writeSecretFile(layout, filepath.Join(memory, name), identity.AddSchema(data))
		if err == nil {
			if err = os.Remove(disk); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	} else {
		if err = os.MkdirAll(layout.RemoteCopies(), 0o750); err == nil {
			err = WriteState(disk, data, 0o600)
		}
		if err == nil {
			err = dropFiles(layout, memory, func(n string) bool { return n == name })
		}
	}
	if err != nil {
		return fmt.Errorf("save a copy of a remote source: %w", err)
	}
	return nil
}

// MoveRemoteCopies moves the copies on disk to memory, after the settings have changed. It deletes
// copies that cannot be written to memory.
func MoveRemoteCopies(layout identity.Layout) error {
	entries, err := os.ReadDir(layout.RemoteCopies())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		data, err := ReadRemoteCopy(layout, e.Name())
		if err == nil {
			err = WriteRemoteCopy(layout, e.Name(), data, true)
		}
		if err != nil {
			errs = append(errs, err, os.Remove(filepath.Join(layout.RemoteCopies(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// RemoveOtherCopies removes the copies that are not in names, because their URLs are no longer
// sources.
func RemoveOtherCopies(layout identity.Layout, names []string) error {
	entries, err := os.ReadDir(layout.RemoteCopies())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	errs := []error{dropFiles(layout, layout.SecretCopies(), func(n string) bool { return !slices.Contains(names, n) })}
	for _, e := range entries {
		if !e.IsDir() && !slices.Contains(names, e.Name()) {
			errs = append(errs, os.Remove(filepath.Join(layout.RemoteCopies(), e.Name())))
		}
	}
	if err = errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("remove the copies of URLs that are no longer sources: %w", err)
	}
	return nil
}
