package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
)

// makeLocal bind-mounts the directory, unless it is already mounted.
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
	if l.Create {
		err = l.bindClaim(ctx, v.HostPath)
	} else {
		err = l.bindPath(ctx, v.HostPath)
	}
	if err != nil {
		return fmt.Errorf("bind %s: %w", l.Path, err)
	}
	if v.FSGroup == nil || l.ReadOnly {
		return nil
	}
	return giveToGroup(ctx, v.HostPath, *v.FSGroup, v.FSGroupPolicy)
}

// check returns an error if the directory does not exist and podrun cannot create it.
func (l *Local) check(ctx context.Context) error {
	found, err := stat(ctx, l.Path)
	if err != nil {
		return err
	}
	paths := map[string]Path{l.Path: found}
	if l.Create {
		link, err := safepath.Await(ctx, l.Path, func() (fs.FileInfo, error) { return os.Lstat(l.Path) })
		if err != nil && ctx.Err() != nil {
			return err
		}
		found.Symlink = err == nil && link.Mode()&fs.ModeSymlink != 0
		paths[l.Path] = found
		if paths[filepath.Dir(l.Path)], err = stat(ctx, filepath.Dir(l.Path)); err != nil {
			return err
		}
	}
	return checkError(l.problem(paths))
}

func (l *Local) bindPath(ctx context.Context, target string) error {
	source, err := openSource(ctx, l.Path, l.Private)
	if err != nil {
		return err
	}
	defer source.Close()
	return l.bind(descriptor(source), target)
}

// bind mounts a directory with the volume's options, which check has accepted.
func (l *Local) bind(source, target string) error {
	var flags uintptr
	if l.ReadOnly {
		flags = unix.MS_RDONLY
	}
	for _, option := range splitOptions(l.Options) {
		flags |= bindOptions[option]
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil || flags == 0 {
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
