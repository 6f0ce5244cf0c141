package copytar

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Pack writes a file or directory as a tar stream. The names of the entries begin with name. It
// packs symlinks as symlinks. It skips devices, sockets and pipes, and calls warn for the first few.
// The memory that it uses depends on the largest directory, not on the size of the tree.
//
// Another user may own the tree, and change it while Pack runs. Therefore Pack follows no symlinks
// inside the tree, opens only files and directories, and packs exactly the files that it has
// examined.
func Pack(ctx context.Context, to io.Writer, from, name string, warn func(string)) error {
	p := &packer{ctx: ctx, out: tar.NewWriter(to), warnings: warnings{warn: warn}}
	defer p.end()
	examined, err := examine(unix.AT_FDCWD, filepath.Clean(from), from)
	if err != nil {
		return err
	}
	defer examined.Close()
	if err := p.pack(examined, path.Clean(name)); err != nil {
		return err
	}
	return p.out.Close()
}

type packer struct {
	ctx context.Context
	out *tar.Writer
	warnings
}

// examine opens a file with O_PATH, so that it neither waits for a FIFO nor accesses a device. If
// the file is a symlink, it opens the link itself, not the link's target. The argument at is the
// file's path for messages.
func examine(dir int, name, at string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	return os.NewFile(uintptr(fd), at), nil
}

// open opens the file that was examined, even if another file has replaced it.
func open(examined *os.File, flags int) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", examined.Fd()), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: examined.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), examined.Name()), nil
}

// pack packs an examined file under a name.
func (p *packer) pack(examined *os.File, name string) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	info, err := examined.Stat()
	if err != nil {
		return err
	}
	if err := checkPath(name); err != nil {
		return fmt.Errorf("%.100s…: %w", examined.Name(), err)
	}
	switch kind := info.Mode().Type(); kind {
	case 0:
		return p.file(examined, info, name)
	case fs.ModeDir:
		return p.directory(examined, info, name)
	case fs.ModeSymlink:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(examined.Fd()), "", target)
		if err != nil {
			return &fs.PathError{Op: "readlink", Path: examined.Name(), Err: err}
		}
		return p.header(info, name, string(target[:n]))
	}
	p.add("%s is skipped: it is not a regular file, directory or symbolic link", examined.Name())
	return nil
}

func (p *packer) header(info fs.FileInfo, name, link string) error {
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = name
	return p.out.WriteHeader(header)
}

func (p *packer) file(examined *os.File, info fs.FileInfo, name string) error {
	f, err := open(examined, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.header(info, name, ""); err != nil {
		return err
	}
	if _, err := io.CopyN(p.out, endsWith{p.ctx, f}, info.Size()); err != nil {
		// EOF means that the file has become shorter.
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return nil
}

func (p *packer) directory(examined *os.File, info fs.FileInfo, name string) error {
	dir, err := open(examined, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := p.header(info, name+"/", ""); err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, base := range names {
		examined, err := examine(int(dir.Fd()), base, filepath.Join(dir.Name(), base))
		if err != nil {
			return err
		}
		if err := errors.Join(p.pack(examined, path.Join(name, base)), examined.Close()); err != nil {
			return err
		}
	}
	return nil
}

// endsWith is a reader that returns an error when its context has ended.
type endsWith struct {
	ctx  context.Context
	from io.Reader
}

func (e endsWith) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.from.Read(p)
}
