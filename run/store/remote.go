package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest/input"
)

// maxCopy limits the size of a copy of a remote source, in bytes: its content and its
// signed list in base64, and metadata.
const maxCopy = input.MaxSource/3*4 + 2<<20

// remoteCopies are the last valid contents of remote sources (source.Remotes, which decodes them).
var remoteCopies = statefile.Declare(statefile.Kind[[]byte]{
	What: "the last content of a URL", Files: "serve/remote/<hash of the URL>", Scope: statefile.URL,
	On:    statefile.Answers{Absent: "the URL was never read", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Report},
	Paths: remoteFiles, Limit: maxCopy, Mode: 0o600, DirMode: 0o750,
	Decode: func(data []byte) ([]byte, error) {
		if !json.Valid(data) {
			return nil, errors.New("it is not JSON")
		}
		return data, nil
	},
	Encode: func(data []byte) ([]byte, error) { return data, nil },
})

// remoteFiles returns the files of all URLs.
func remoteFiles(l identity.Layout) (out []string) {
	for _, dir := range []string{l.Secrets().RemoteCopies(), l.Serve().RemoteCopies()} {
		entries, _ := os.ReadDir(dir) // the directory exists only if there are URLs
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				out = append(out, filepath.Join(dir, e.Name()))
			}
		}
	}
	return out
}

// ReadRemoteCopy reads the copy with the given file name: the last valid content of a remote source
// (source.Remotes). The error is fs.ErrNotExist if there is none, or a *statefile.Fault.
func ReadRemoteCopy(layout identity.Layout, name string) ([]byte, error) {
	for _, dir := range []string{layout.Secrets().RemoteCopies(), layout.Serve().RemoteCopies()} {
		found := remoteCopies.Examine(context.Background(), filepath.Join(dir, name))
		switch {
		case found.Fault != nil:
			return nil, found.Fault
		case found.State == statefile.Intact:
			return found.Value, nil
		}
	}
	return nil, fs.ErrNotExist
}

// WriteRemoteCopy writes a copy of a remote source. If podrun keeps Secrets in memory, it also keeps
// the copy in memory, because the copy may contain Secrets. Otherwise it writes and syncs the copy on
// disk, because podrun uses the copy when the host boots without a network. WriteRemoteCopy removes an
// earlier copy in the other place.
func WriteRemoteCopy(layout identity.Layout, name string, data []byte, inMemory bool) error {
	disk, memory := filepath.Join(layout.Serve().RemoteCopies(), name), layout.Secrets().RemoteCopies()
	var err error
	if inMemory {
		err = writeSecretFile(layout, filepath.Join(memory, name), identity.AddSchema(identity.PlainSchema, data))
		if err == nil {
			err = statefile.Remove(disk)
		}
	} else {
		if err = remoteCopies.Write(disk, data); err == nil {
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
	entries, err := os.ReadDir(layout.Serve().RemoteCopies())
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
			errs = append(errs, err, statefile.Remove(filepath.Join(layout.Serve().RemoteCopies(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// RemoveOtherCopies removes the copies that are not in names, because their URLs are no longer
// sources.
func RemoveOtherCopies(layout identity.Layout, names []string) error {
	entries, err := os.ReadDir(layout.Serve().RemoteCopies())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	errs := []error{dropFiles(layout, layout.Secrets().RemoteCopies(), func(n string) bool { return !slices.Contains(names, n) })}
	for _, e := range entries {
		if !e.IsDir() && !slices.Contains(names, e.Name()) {
			errs = append(errs, os.Remove(filepath.Join(layout.Serve().RemoteCopies(), e.Name())))
		}
	}
	if err = errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("remove the copies of URLs that are no longer sources: %w", err)
	}
	return nil
}
