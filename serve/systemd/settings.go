package systemd

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/internal/hostfile"
)

// create creates a file with mode 0644, unless anything exists at its path. This keeps the
// administrator's settings, even if they are a link to a file that will be mounted later.
func (s Service) create(f *File, created func()) error {
	if f == nil || s.Exists(f.Path) {
		return nil
	}
	if err := s.makeAll(filepath.Dir(f.Path)); err != nil {
		return err
	}
	path := s.path(f.Path)
	// The file is complete before the link makes it visible. Creating the link is atomic, and never
	// replaces a file.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := hostfile.Write(temporary, f.Text, 0o644); err != nil {
		return err
	}
	err := os.Link(temporary, path)
	err = errors.Join(ignore(err, fs.ErrExist), os.Remove(temporary))
	if err == nil && created != nil {
		created()
	}
	return err
}

// ignore returns nil if err is of the given kind, and err otherwise.
func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// Exists reports whether a path of the host exists.
func (s Service) Exists(name string) bool {
	_, err := os.Lstat(s.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// removeUnchanged removes a file that create has created, unless its text has changed.
func (s Service) removeUnchanged(ctx context.Context, f *File) error {
	if f == nil {
		return nil
	}
	have, err := hostfile.ReadNoFollow(ctx, s.path(f.Path), maxUnit)
	if err != nil || !bytes.Equal(have, f.Text) {
		// The file does not exist, or the administrator has changed it.
		return nil
	}
	return s.unlink(f.Path)
}
