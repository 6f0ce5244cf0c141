package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
)

// UninstallOptions are the options of Uninstall.
type UninstallOptions struct {
	Force bool // also remove a unit that Install did not create
	// the file that Install created; Uninstall removes it if its text has not changed; may be nil
	Settings *File
	// absolute paths of directories that Uninstall removes if they are empty
	Empty []string
}

// Uninstall stops and disables the service, and removes its unit. It returns false if there is no
// unit. It removes logind's drop-in directory if that directory is empty. It keeps pods, manifests,
// changed settings and the administrator's drop-ins. An interrupted Uninstall can be repeated.
func (s Service) Uninstall(ctx context.Context, o UninstallOptions) (removed bool, err error) {
	if err := s.ready(); err != nil {
		return false, err
	}
	unit, err := s.unit(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(s.disable(), s.setDelay(ctx, nil)); err != nil {
			return false, err
		}
		return false, s.forget(ctx)
	}
	if err != nil && !errors.Is(err, hostfile.ErrNotRegular) {
		return false, failure("read the unit", err, "")
	}
	if err := s.refuseOther(unit, err, o.Force, "remove"); err != nil {
		return false, err
	}
	if s.Manager != nil {
		if _, err := s.Manager.Run(ctx, "disable", "--now", UnitName); err != nil {
			return false, failure("", err, fmt.Sprintf("stop the service with 'systemctl stop %s', then run 'podrun service uninstall' again", UnitName))
		}
	}
	for _, err := range []error{s.removeUnchanged(ctx, o.Settings), s.disable(), s.unlink(s.unitPath()), s.setDelay(ctx, nil)} {
		if err != nil {
			return false, err
		}
	}
	for _, dir := range append(o.Empty, filepath.Dir(DelayPath)) {
		s.removeEmpty(dir)
	}
	return true, s.forget(ctx)
}

// removeEmpty removes a directory if it is empty. Below a prefix, it does not follow links
// out of the prefix.
func (s Service) removeEmpty(dir string) {
	root, err := os.OpenRoot(s.path("/"))
	if err != nil {
		// the prefix does not exist
		return
	}
	defer root.Close()
	name := strings.TrimPrefix(dir, "/")
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		// The directory is not empty, or is in use.
		_ = root.Remove(name)
	}
}

// forget makes systemd drop the unit after an Uninstall, possibly an interrupted one, has removed
// the unit's file.
func (s Service) forget(ctx context.Context) error {
	if s.Manager == nil {
		return nil
	}
	if _, err := s.Manager.Run(ctx, "daemon-reload"); err != nil {
		return failure("", err, "the unit was removed: run 'systemctl daemon-reload'")
	}
	return nil
}

// disable removes the link that enables the unit of the host. systemctl has removed the link of an ordinary user.
func (s Service) disable() error {
	if s.UserDir != "" {
		return nil
	}
	return s.unlink(wantedBy)
}

// unlink removes a file. If there is a prefix, it does not follow links out of the prefix.
func (s Service) unlink(name string) error {
	remove := func() error { return os.Remove(name) }
	if s.Prefix != "" {
		remove = func() error {
			root, err := os.OpenRoot(s.Prefix)
			if err != nil {
				return err
			}
			defer root.Close()
			return root.Remove(strings.TrimPrefix(name, "/"))
		}
	}
	if err := remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failure("remove the unit", err, "")
	}
	return nil
}
