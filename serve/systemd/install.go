package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
)

// Service is podrun.service on this host, or in another host's file system.
type Service struct {
	// Prefix is prepended to every path. It is "" for this host, and otherwise the root of another
	// host's file system, for example that of an image.
	Prefix string
	// Manager is this host's systemd. If it is nil, the files belong to another host: Install
	// enables the unit with a link, and does not start it.
	Manager Manager
	// UserDir is the directory of the units of an ordinary user (~/.config/systemd/user); "" for the host's units. The
	// Manager is then the user's.
	UserDir string
}

// unitPath is the path of the unit.
func (s Service) unitPath() string {
	if s.UserDir != "" {
		return filepath.Join(s.UserDir, UnitName)
	}
	return UnitPath
}

// InstallOptions are the options of Install.
type InstallOptions struct {
	Unit []byte // the result of Unit
	// directories that Install creates with mode 0750 if they do not exist
	Dirs  []string
	Force bool // also replace a unit that podrun did not write
	Now   bool // start or restart the service; requires a Manager
	// Delay is the maximum time for which pods may delay a shutdown of the host; 0 means no delay.
	Delay time.Duration
	// Settings is a file that Install creates before the service starts, if the file does not
	// exist. It may be nil.
	Settings *File
	Created  func() // called when Settings has been created
}

// File is a file on the host.
type File struct {
	Path string // an absolute path
	Text []byte
}

// modeDir is the mode of the manifest directories, which may contain Secrets.
const modeDir = 0o750

// Install writes the unit, creates the directories, and enables the service. It can be repeated.
// If Install restarts the service, containers continue to run.
func (s Service) Install(ctx context.Context, o InstallOptions) error {
	if err := s.ready(); err != nil {
		return err
	}
	old, err := s.unit(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, hostfile.ErrNotRegular) {
		return failure("read the unit", err, "")
	}
	if err := s.refuseOther(old, err, o.Force, "replace"); err != nil {
		return err
	}
	for _, dir := range o.Dirs {
		if err := s.makeDir(dir); err != nil {
			return failure("create the manifest directory", err, "")
		}
	}
	if err := s.create(o.Settings, o.Created); err != nil {
		return failure("write the settings file", err, "")
	}
	file := s.path(s.unitPath())
	if err := s.makeAll(filepath.Dir(s.unitPath())); err != nil {
		return failure("write the unit", err, "")
	}
	if !bytes.Equal(old, o.Unit) {
		if err := hostfile.Write(file, o.Unit, 0o644); err != nil {
			return failure("write the unit", err, "")
		}
	}
	if err := s.setDelay(ctx, delayDropIn(o.Delay)); err != nil {
		return err
	}
	if s.Manager == nil {
		return s.link()
	}
	steps := [][]string{{"daemon-reload"}, {"enable", UnitName}}
	if o.Now {
		steps = append(steps, []string{"restart", UnitName})
	}
	for _, step := range steps {
		if _, err := s.Manager.Run(ctx, step...); err != nil {
			return failure("", err, "podrun has written the unit: fix the cause and run 'podrun service install' again, or run 'podrun service uninstall'")
		}
	}
	return nil
}

// setDelay writes the text to logind's drop-in, or removes the drop-in if text is nil. It keeps a
// file with that name that podrun did not write.
func (s Service) setDelay(ctx context.Context, text []byte) error {
	if s.UserDir != "" {
		return nil // an ordinary user cannot delay a shutdown
	}
	have, err := hostfile.Read(ctx, s.path(DelayPath), maxUnit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		have, err = nil, nil
	case err != nil:
		return failure("read "+DelayPath, err, "")
	case !isDelay(have):
		return nil
	}
	if bytes.Equal(have, text) {
		return nil
	}
	if text == nil {
		err = s.unlink(DelayPath)
	} else if err = s.makeAll(filepath.Dir(DelayPath)); err == nil {
		err = hostfile.Write(s.path(DelayPath), text, 0o644)
	}
	if err != nil {
		return failure("write "+DelayPath, err, "")
	}
	if s.Manager != nil {
		// On SIGHUP, logind reads its configuration again. The kubelet also sends this signal. If
		// logind is not running, `podrun serve` reports that when it starts.
		_, _ = s.Manager.Run(ctx, "kill", "--signal=HUP", "systemd-logind.service")
	}
	return nil
}

// makeDir creates a directory for manifests with an exact mode, regardless of the umask. It does
// not change an existing directory.
func (s Service) makeDir(dir string) error {
	if err := s.makeAll(filepath.Dir(dir)); err != nil {
		return err
	}
	dir = s.path(dir)
	err := os.Mkdir(dir, modeDir)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s: not a directory", dir)
		}
		return err
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, modeDir)
}

// makeAll creates a directory and its parents. Below a prefix, it does not follow links out of the
// prefix: an absolute link there refers to a directory of the other host.
func (s Service) makeAll(dir string) error {
	if s.Prefix == "" {
		return os.MkdirAll(dir, 0o755)
	}
	root, err := os.OpenRoot(s.Prefix)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.MkdirAll("."+dir, 0o755)
}

// wantedBy is the link that enables the unit. It must match the section [Install] of Unit.
const wantedBy = "/etc/systemd/system/multi-user.target.wants/" + UnitName

// link enables the unit in another host's file system, as `systemctl --root enable` does.
func (s Service) link() error {
	err := s.makeAll(filepath.Dir(wantedBy))
	if err == nil {
		err = os.Symlink(UnitPath, s.path(wantedBy))
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return failure("enable the unit", err, "")
}

// refuseOther refuses to change a unit that podrun did not write. The argument err is the error
// from reading the unit file. If the file is a link, such as the links with which systemd masks
// units, podrun did not write it either.
func (s Service) refuseOther(unit []byte, err error, force bool, verb string) error {
	if force || errors.Is(err, fs.ErrNotExist) || err == nil && written(unit) {
		return nil
	}
	return failure("", fmt.Errorf("%s was not written by podrun", s.unitPath()), fmt.Sprintf("use --force to %s it", verb))
}

func (s Service) path(name string) string { return filepath.Join(s.Prefix, name) }

// failure returns an error about the service.
func failure(op string, err error, hint string) error {
	return &problem.Error{Kind: problem.Runtime, Object: UnitName, Op: op, Err: err, Hint: hint}
}
