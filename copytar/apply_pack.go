package copytar

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Pack writes a file or directory as a tar stream, whose entries begin with the name.
// Symlinks are packed as such. Devices, sockets and pipes are left out; warn is called
// for each. Memory does not grow with the tree, but with its largest directory.
func Pack(ctx context.Context, to io.Writer, from, name string, warn func(string)) error {
	out := tar.NewWriter(to)
	err := filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		return pack(out, at, path.Join(name, filepath.ToSlash(rel)), d, warn)
	})
	if err != nil {
		return err
	}
	return out.Close()
}

func pack(out *tar.Writer, at, name string, d fs.DirEntry, warn func(string)) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	switch kind := info.Mode().Type(); {
	case kind == fs.ModeSymlink:
		if link, err = os.Readlink(at); err != nil {
			return err
		}
	case kind != 0 && kind != fs.ModeDir:
		warn(fmt.Sprintf("%s is left out: it is no file, directory or symlink", at))
		return nil
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = name
	if info.IsDir() {
		header.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return out.WriteHeader(header)
	}
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.CopyN(out, f, header.Size); err != nil {
		return fmt.Errorf("read %s: %w", at, err) // it became shorter
	}
	return nil
}
