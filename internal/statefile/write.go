package statefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// Write replaces a file. It returns a *Fault, and changes nothing, if a newer podrun wrote the file.
// A directory in the file's place is set aside (SetAside). Unless the kind is Unsynced, the file is
// durable when Write returns.
func (k *Kind[T]) Write(path string, value T) error {
	return k.write(path, value, !k.Unsynced)
}

// WriteDurable is Write for content of an Unsynced kind that a power failure must not destroy.
func (k *Kind[T]) WriteDurable(path string, value T) error {
	return k.write(path, value, true)
}

func (k *Kind[T]) write(path string, value T, sync bool) error {
	data, err := k.encode(value)
	if err != nil {
		return err
	}
	if fault := k.Newer(path); fault != nil {
		return fault
	}
	if err := k.makeDir(filepath.Dir(path), sync); err != nil {
		return err
	}
	write := hostfile.WriteUnsynced
	if sync {
		write = hostfile.Write
	}
	if err = write(path, data, k.Mode); errors.Is(err, fs.ErrExist) && hostfile.IsDir(path) {
		if err = SetAside(path); err == nil {
			err = write(path, data, k.Mode)
		}
	}
	return err
}

// encode returns the data of a file. The error is that the value cannot be encoded, or that the file
// would be larger than the kind permits, so that podrun could not read it again.
func (k *Kind[T]) encode(value T) ([]byte, error) {
	encode := k.Encode
	if encode == nil {
		encode = func(v T) ([]byte, error) { return json.Marshal(v) }
	}
	data, err := encode(value)
	if err != nil {
		return nil, err
	}
	if k.Format == Line {
		data = identity.AddSchema(max(k.Version, 1), data)
	}
	if int64(len(data)) > k.limit() {
		return nil, fmt.Errorf("%s would be larger than the limit of %d KiB", k.What, k.limit()>>10)
	}
	return data, nil
}

func (k *Kind[T]) makeDir(dir string, durable bool) error {
	switch {
	case k.DirMode == 0:
		return nil
	case durable:
		return hostfile.MakeDirsDurable(dir, k.DirMode)
	}
	return os.MkdirAll(dir, k.DirMode)
}

// Newer returns a Fault if a newer podrun wrote the file. With the format Line, it reads only the
// beginning of the file.
func (k *Kind[T]) Newer(path string) *Fault {
	version := 0
	switch k.Format {
	case Line:
		version = lineVersion(path)
	case Field:
		data, state, _ := load(context.Background(), path, k.limit())
		if state != Intact {
			return nil
		}
		version = fieldVersion(data, k.Field)
	case Unversioned:
		return nil
	}
	if version <= k.newest() {
		return nil
	}
	return k.fault(path, Newer, newerError(version, k.newest()))
}

// CheckVersion returns an error that matches IsNewer if a newer podrun wrote a file of the format Line. It
// reads only the beginning of the file.
func CheckVersion(path string) error {
	if version := lineVersion(path); version > identity.Schema {
		return &Fault{Path: path, State: Newer, Action: Refuse, Err: newerError(version, identity.Schema)}
	}
	return nil
}

// lineVersion returns the version in a file's first line; 0 if there is none, or if the file cannot be
// read, which its reader reports.
func lineVersion(path string) int {
	const head = 4 << 10
	data, err := hostfile.ReadHead(context.Background(), path, head)
	if err != nil {
		return 0
	}
	_, version := identity.CutSchema(data)
	return version
}

// Remove removes a file. It is not an error if the file does not exist. A directory in the file's place is
// removed if it is empty, and set aside otherwise.
func Remove(path string) error {
	err := os.Remove(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case errors.Is(err, unix.ENOTEMPTY):
		return SetAside(path)
	}
	return err
}

// SetAside renames a damaged file, or a directory in its place, to .NAME.damaged, so that a user can
// examine it. Only the last one is kept.
func SetAside(path string) error {
	to := Aside(path)
	// If a directory that is not empty has this name, the rename fails.
	_ = os.Remove(to)
	if err := os.Rename(path, to); err != nil {
		return fmt.Errorf("set the damaged file aside: %w", err)
	}
	return nil
}

// Aside returns the path to which SetAside renames a file.
func Aside(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+asideSuffix)
}

const asideSuffix = ".damaged"

// IsSetAside reports whether a file has the name that SetAside gives.
func IsSetAside(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, asideSuffix)
}
