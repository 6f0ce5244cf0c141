package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/volume/safepath"
)

// makeLocal binds the directory, unless it is bound already.
func makeLocal(ctx context.Context, v Volume, l *Local) error {
	mounted, err := safepath.IsMountPoint(ctx, v.HostPath)
	if err != nil || mounted {
		return err
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	if err := makeMountPoint(v.HostPath); err != nil {
		return err
	}
	if err := l.bind(v.HostPath); err != nil {
		return fmt.Errorf("bind %s: %w", l.Path, err)
	}
	if v.FSGroup == nil || l.ReadOnly {
		return nil
	}
	return giveToGroup(ctx, v.HostPath, *v.FSGroup, v.FSGroupPolicy)
}

// check reports whether the directory is there.
func (l *Local) check(ctx context.Context) error {
	info, err := safepath.Stat(ctx, l.Path)
	if ctx.Err() != nil && err != nil {
		return err
	}
	if err != nil {
		return &CheckError{Message: fmt.Sprintf("path %q does not exist", l.Path)}
	}
	if !info.IsDir() {
		return &CheckError{Message: fmt.Sprintf("path %q is not a directory", l.Path)}
	}
	return nil
}

// bindOptions are the options that a bind mount can set separately from its source.
var bindOptions = map[string]uintptr{
	"rw": 0, "bind": 0, "defaults": 0, "ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

func (l *Local) bind(target string) error {
	var flags uintptr
	if l.ReadOnly {
		flags = unix.MS_RDONLY
	}
	for _, option := range l.Options {
		flag, known := bindOptions[option]
		if !known {
			return fmt.Errorf("the mount option %q is not supported for a local volume", option)
		}
		flags |= flag
	}
	if err := unix.Mount(l.Path, target, "", unix.MS_BIND, ""); err != nil || flags == 0 {
		return err
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return errors.Join(err, unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

func makeMountPoint(at string) error {
	if err := safepath.MakeDir(filepath.Dir(at), dirMode); err != nil {
		return err
	}
	return safepath.MakeDir(at, dirMode)
}
