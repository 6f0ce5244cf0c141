package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/serve/source/signature"
)

const (
	maxEntries = 100000 // how many names of a directory are examined
	maxIgnored = 100    // how many names are reported as ignored
)

var errTooMuch = fmt.Errorf("files with more than %d MiB changed in the directory at once", input.MaxInput>>20)

var errDangling = errors.New("is a symbolic link to a file that does not exist")

// list reads a directory, or a single file, whose observation has the name "". It does not read a
// file again if the file's attributes are those in the map "known". progress counts the completed
// calls. If signed is true, it also reads the signed list. All paths are relative to the directory's descriptor. Otherwise a mount or unmount
// during the read would mix two directories.
func list(ctx context.Context, dir string, known map[string]print, strict, signed bool, progress *atomic.Int64) listing {
	d, file, err := openSource(dir)
	if err != nil {
		return listing{err: cause(err)}
	}
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return listing{err: err}
	}
	l := listing{identity: Identity{Device: uint64(st.Dev), Inode: st.Ino}}
	who := permissionsOf(&st)
	if err := who.refused(strict); err != nil {
		l.err = err
		if file != "" {
			l.err = fmt.Errorf("its directory is %w", err)
		}
		return l
	}
	l.expose("the directory", who)
	names := []string{file}
	if file == "" {
		if names, err = l.names(ctx, d, progress); err != nil {
			l.err = cause(err)
			return l
		}
	}
	base := fmt.Sprintf("/proc/self/fd/%d", d.Fd())
	if signed {
		l.readSigned(ctx, base, file, progress)
	}
	left := int64(input.MaxInput)
	for _, name := range names {
		if ctx.Err() != nil {
			l.err = context.Cause(ctx)
			return l
		}
		as := name
		if file != "" {
			as = ""
		}
		o, isDir := observe(base, name, known[as], strict, left)
		o.name = as
		progress.Add(1)
		switch {
		case isDir:
			l.ignore(name)
		// The file was removed after it was listed.
		case errors.Is(o.err, fs.ErrNotExist):
		default:
			left -= int64(len(o.data))
			l.files = append(l.files, o)
			l.expose(printable(name), o.permissions)
		}
	}
	return l
}

// openSource opens a directory. If the path is that of a single file, it opens the file's directory, and
// file is the file's name. A path is that of a file if it has a manifest's name and is not a directory.
func openSource(path string) (d *os.File, file string, err error) {
	const flags = unix.O_DIRECTORY | unix.O_NONBLOCK
	d, err = os.OpenFile(path, flags, 0)
	name := filepath.Base(path)
	if kindOfName(name) == manifestName && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrNotExist)) {
		d, err = os.OpenFile(filepath.Dir(path), flags, 0)
		return d, name, err
	}
	return d, "", err
}

// readSigned reads the signed list of a directory, or of a single file.
func (l *listing) readSigned(ctx context.Context, base, file string, progress *atomic.Int64) {
	name := sumsFile
	if file != "" {
		name = file + sumsSuffix
	}
	read := func(name string, limit int64) []byte {
		data, err := hostfile.Read(ctx, filepath.Join(base, name), limit)
		progress.Add(1)
		if err != nil && l.signed.err == nil {
			l.signed.err = fmt.Errorf("%s: %w", printable(name), cause(err))
		}
		return data
	}
	l.signed.sums = read(name, signature.MaxSums)
	l.signed.signature = read(name+signatureSuffix, signature.MaxSignature)
	l.ignored = slices.DeleteFunc(l.ignored, func(n string) bool { return n == sumsFile || n == sumsFile+signatureSuffix })
}

// names reads the names of manifests, a few at a time, and sorts them.
func (l *listing) names(ctx context.Context, d *os.File, progress *atomic.Int64) ([]string, error) {
	var names []string
	for entries := 0; ctx.Err() == nil; {
		more, err := d.Readdirnames(1024)
		progress.Add(1)
		for _, name := range more {
			switch kindOfName(name) {
			case manifestName:
				names = append(names, name)
			case foreignName:
				l.ignore(name)
			}
			l.marked = l.marked || name == keepMarker
		}
		entries += len(more)
		switch {
		case len(names) > input.MaxFiles:
			return nil, fmt.Errorf("the directory has more than %d manifests", input.MaxFiles)
		case entries > maxEntries:
			return nil, fmt.Errorf("the directory has more than %d entries", maxEntries)
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			slices.Sort(l.ignored)
			return names, nil
		case err != nil:
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

func (l *listing) ignore(name string) {
	if len(l.ignored) < maxIgnored {
		l.ignored = append(l.ignored, printable(name))
	}
}

// observe reads one file, unless its attributes equal "known". The parameter "left" limits the
// number of bytes.
func observe(base, name string, known print, strict bool, left int64) (o observation, isDir bool) {
	path := filepath.Join(base, name)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		o.err = danglingOr(path, err)
		return o, false
	}
	o.print = printOf(&st)
	o.permissions = permissionsOf(&st)
	refused := o.permissions.refused(strict)
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return o, true
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		o.err = hostfile.ErrNotRegular
	case refused != nil:
		o.err = refused
	case known == o.print:
		o.kept = true
	case st.Size > input.MaxSource:
		o.err = hostfile.TooLarge(input.MaxSource)
	case st.Size > left:
		o.err = errTooMuch
	default:
		o.read(path, strict, min(left, input.MaxSource))
	}
	return o, false
}

// danglingOr returns errDangling if the path is a dangling symbolic link, and otherwise err.
func danglingOr(path string, err error) error {
	if _, gone := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && gone == nil {
		return errDangling
	}
	return err
}

// read reads the content of a file, and determines whether it may still change.
func (o *observation) read(path string, strict bool, limit int64) {
	f, err := hostfile.Open(path)
	if err != nil {
		o.err = danglingOr(path, cause(err))
		return
	}
	defer f.Close()
	fd := int(f.Fd())
	var before, after unix.Stat_t
	if o.err = unix.Fstat(fd, &before); o.err != nil {
		return
	}
	o.print = printOf(&before)
	o.permissions = permissionsOf(&before)
	if o.err = o.permissions.refused(strict); o.err != nil {
		return // replaced after stat(2)
	}
	// If a file has grown since its attributes were read, it exceeds the limit or is incomplete.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		o.err = cause(err)
		return
	case int64(len(data)) > limit:
		o.err = hostfile.TooLarge(limit)
		return
	}
	o.data = data
	o.writer = writerOf(fd)
	if o.err = unix.Fstat(fd, &after); printOf(&after) != o.print {
		o.writer = hasWriter
	}
}

// writerOf reports whether a process has the file open for writing. If one has, the kernel refuses a read lease
// (fcntl(2), F_SETLEASE). To request a lease, podrun needs CAP_LEASE, or must own the file. writerOf releases the
// lease immediately. A process that opens the file for writing in between waits until then.
func writerOf(fd int) writer {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		// Closing the file releases it, too.
		unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		return noWriter
	case errors.Is(err, unix.EAGAIN):
		return hasWriter
	}
	return writerUnknown
}

func printOf(st *unix.Stat_t) print {
	return print{device: uint64(st.Dev), inode: st.Ino, size: st.Size, modified: st.Mtim.Nano(), changed: st.Ctim.Nano()}
}

// cause returns an error without its path, which refers to a descriptor.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
