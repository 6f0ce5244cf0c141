package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/credential"
	"github.com/podrun/podrun/internal/safepath"
)

// makeFiles creates the volume, or updates its files.
func makeFiles(ctx context.Context, v Volume, f *Files) error {
	files, err := unsealed(ctx, f.Files)
	if err != nil {
		return err
	}
	if err := mountFiles(ctx, f, v.HostPath); err != nil {
		return err
	}
	fd, err := unix.Open(v.HostPath, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", v.HostPath, err)
	}
	defer unix.Close(fd)
	for _, at := range f.Nested {
		dir, err := safepath.MakeDirs(fd, at)
		if err != nil {
			return fmt.Errorf("create the mount point %s: %w", at, err)
		}
		unix.Close(dir)
	}
	return (&publisher{ctx: ctx, dir: fd, files: files, gid: v.FSGroup}).publish()
}

// unsealed returns the files with the values of their credentials. These exist only here and in the volume, which is in
// memory.
func unsealed(ctx context.Context, files []File) ([]File, error) {
	out := files
	for i, f := range files {
		if f.Credential == "" {
			continue
		}
		data, err := credential.Host.Decrypt(ctx, f.Credential)
		if err != nil {
			return nil, err
		}
		if &out[0] == &files[0] {
			out = slices.Clone(files)
		}
		out[i].Data = data
	}
	return out, nil
}

// mountFiles mounts the tmpfs, unless it is already mounted.
func mountFiles(ctx context.Context, f *Files, at string) error {
	if mounted, err := safepath.IsMountPoint(ctx, at); mounted || err != nil {
		return err
	}
	if err := safepath.MakeDir(filepath.Dir(at), openMode); err != nil {
		return err
	}
	if err := safepath.MakeDir(at, volumeMode); err != nil {
		return err
	}
	return MountTmpfs(at, f.SizeBytes, 0)
}

// Refresh updates the volumes whose files podrun writes, while containers use them.
func Refresh(ctx context.Context, p Plan) error {
	only := p
	only.Volumes = nil
	for _, v := range p.Volumes {
		if v.Setup.Kind == SetupFiles {
			only.Volumes = append(only.Volumes, v)
		}
	}
	return Apply(ctx, only)
}
