package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
)

// The names in a volume of files, in the kubelet's layout. A directory whose name contains the time
// contains the files, ..data links to this directory, and each name at the top level is a link
// through ..data. Replacing ..data changes all files atomically.
const (
	dataName    = "..data"
	newDataName = "..data_tmp"
	timeFormat  = "..2006_01_02_15_04_05."
)

var timedName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\.\.\d{4}(_\d\d){5}\.\d+$`) })

// publisher updates a directory so that it contains exactly the given files. A container may have
// placed any files in the directory. Therefore the publisher writes only to files that it has just
// created, never follows symlinks, and looks up every name in an open directory (CVE-2025-9566).
type publisher struct {
	ctx   context.Context
	dir   int // descriptor of the volume
	files []File
	gid   *int64
}

func (p *publisher) publish() error {
	if p.gid != nil {
		// The directory's group must be set first, so that new links get the right group because of
		// the setgid bit.
		if err := giveFile(p.dir, int(*p.gid), readOnlyBits.dir); err != nil {
			return fmt.Errorf("change the group of the volume to %d: %w", *p.gid, err)
		}
	}
	current := p.current()
	if current == "" || !p.same(current) {
		made, err := p.write()
		if err == nil {
			err = p.swap(made)
		}
		if err != nil {
			return err
		}
		current = made
	}
	links := tops(p.files)
	if err := p.link(links); err != nil {
		return err
	}
	return p.tidy(current, links)
}

// current returns the name of the directory that ..data points to, or "" if there is none.
func (p *publisher) current() string {
	name, err := safepath.Readlink(p.dir, dataName)
	if err != nil || !timedName().MatchString(name) {
		return ""
	}
	return name
}

// same reports whether a directory contains exactly the files.
func (p *publisher) same(name string) bool {
	fd, err := safepath.OpenSubdir(p.dir, name)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var have []string
	if p.list(fd, "", &have) != nil || len(have) != len(p.files) {
		return false
	}
	slices.Sort(have)
	// The list is also sorted by path.
	for i, f := range p.files {
		if have[i] != f.Path || !safepath.HasContent(fd, f.Path, f.Data) {
			return false
		}
	}
	return true
}

// list appends the paths of all entries of dir, except directories that contain files of the
// volume. It stops when there are more paths than files, because this means that the directory
// contains unexpected entries.
func (p *publisher) list(dir int, below string, out *[]string) error {
	names, err := safepath.List(p.ctx, dir)
	if err != nil {
		return err
	}
	defer names.Close()
	for len(*out) <= len(p.files) {
		name, err := names.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := path.Join(below, name)
		sub, err := safepath.OpenSubdir(dir, name)
		if err == nil && p.hasBelow(at) {
			err = p.list(sub, at, out)
		} else {
			*out, err = append(*out, at), nil
		}
		if sub >= 0 {
			unix.Close(sub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasBelow reports whether one of the files is below a directory. list does not enter directories
// without such files, because a container may have created them, nested to any depth.
func (p *publisher) hasBelow(dir string) bool {
	i, _ := slices.BinarySearchFunc(p.files, dir+"/", func(f File, prefix string) int { return strings.Compare(f.Path, prefix) })
	return i < len(p.files) && strings.HasPrefix(p.files[i].Path, dir+"/")
}

// write writes the files to a new directory, and returns the directory's name.
func (p *publisher) write() (string, error) {
	name := fmt.Sprintf("%s%d", time.Now().UTC().Format(timeFormat), rand.Uint32())
	if err := unix.Mkdirat(p.dir, name, 0o755); err != nil {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	fd, err := safepath.OpenSubdir(p.dir, name)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, 0o755); err != nil {
		return "", err
	}
	if err := p.fill(fd); err != nil {
		return "", err
	}
	if p.gid == nil {
		return name, nil
	}
	if err := giveTree(p.ctx, fd, int(*p.gid), readOnlyBits); err != nil {
		return "", fmt.Errorf("change the group of the files to %d: %w", *p.gid, err)
	}
	return name, nil
}

// fill writes the files, which are sorted by path, below a directory.
func (p *publisher) fill(root int) error {
	var writer safepath.Writer
	parent, at := root, "."
	defer func() {
		if parent != root {
			unix.Close(parent)
		}
	}()
	for _, f := range p.files {
		if dir := path.Dir(f.Path); dir != at {
			next := root
			if dir != "." {
				var err error
				if next, err = safepath.MakeDirs(root, dir); err != nil {
					return fmt.Errorf("create %s: %w", dir, err)
				}
			}
			if parent != root {
				unix.Close(parent)
			}
			parent, at = next, dir
		}
		if err := writer.WriteNew(parent, path.Base(f.Path), f.Mode, f.UID, f.Data); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// swap makes ..data point to another directory, atomically.
func (p *publisher) swap(name string) error {
	if err := p.replace(newDataName, name); err != nil {
		return err
	}
	err := unix.Renameat(p.dir, newDataName, p.dir, dataName)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if err = p.clear(dataName); err == nil {
			err = unix.Renameat(p.dir, newDataName, p.dir, dataName)
		}
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", dataName, err)
	}
	return nil
}

// link creates the symlinks that containers see. It corrects symlinks that a user has changed.
func (p *publisher) link(names []string) error {
	for _, name := range names {
		if err := p.replace(name, dataName+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// replace creates a symlink. It replaces an existing file with the same name. It keeps a symlink
// that is already correct, so that containers see the symlink at all times.
func (p *publisher) replace(name, to string) error {
	err := unix.Symlinkat(to, p.dir, name)
	if errors.Is(err, unix.EEXIST) {
		if have, err := safepath.Readlink(p.dir, name); err == nil && have == to {
			return nil
		}
		if err = p.clear(name); err == nil {
			err = unix.Symlinkat(to, p.dir, name)
		}
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}

// tidy removes symlinks to files that the volume no longer contains. It also removes the
// directories of earlier contents and of interrupted updates. The argument links contains the names
// that tidy keeps, sorted.
func (p *publisher) tidy(current string, links []string) error {
	names, err := safepath.List(p.ctx, p.dir)
	if err != nil {
		return err
	}
	defer names.Close()
	for {
		name, err := names.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var old bool
		if strings.HasPrefix(name, "..") {
			old = timedName().MatchString(name) && name != current || name == newDataName
		} else if _, wanted := slices.BinarySearch(links, name); !wanted {
			to, err := safepath.Readlink(p.dir, name)
			old = err == nil && to == dataName+"/"+name
		}
		if old {
			if err := p.clear(name); err != nil {
				return err
			}
		}
	}
}

// clear removes a file or a directory with its content from the volume.
func (p *publisher) clear(name string) error {
	if err := safepath.Remove(p.ctx, p.dir, name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
