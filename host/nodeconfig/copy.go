package nodeconfig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// CopiesDir returns the directory with the copies of settings files (Copy), below the root directory of a flag or the
// environment, or of the defaults if root is empty. It does not depend on the settings file, because podrun reads the copy
// if that file cannot be used.
func CopiesDir(root string) string {
	if root == "" {
		root = Default().RootDir
	}
	return filepath.Join(root, "config")
}

// maxCopies is the number of copies in a directory. Each file of `serve --config` has one.
const maxCopies = 10

// copyFile is the last valid content of a settings file. A copy that cannot be read counts as absent: a command then
// fails because of the settings file itself, which it reports.
var copyFile = statefile.Declare(statefile.Kind[[]byte]{
	What: "the last valid settings", Files: "config/<hash of the file's path>", Scope: statefile.Host,
	On: statefile.Answers{Absent: "podrun has not used the settings file", Corrupt: statefile.Ignore, Unreadable: statefile.Ignore, Newer: statefile.Ignore},
	Paths: func(l identity.Layout) []string {
		paths, _ := hostfile.Entries(CopiesDir(l.RootDir), "", "") // the directory exists only if there is a settings file
		// If the settings file sets the root directory, its copy is below the default one.
		if fallback := CopiesDir(""); fallback != CopiesDir(l.RootDir) {
			more, _ := hostfile.Entries(fallback, "", "")
			paths = append(paths, more...)
		}
		return paths
	},
	Format: statefile.Unversioned, Limit: maxFile, Mode: 0o600, DirMode: 0o750,
	Decode: func(data []byte) ([]byte, error) { return data, nil },
	Encode: func(data []byte) ([]byte, error) { return data, nil },
})

// Copy is the copy of the last valid content of a settings file. Supervisors use it if the file cannot be used, so that
// they never continue with the defaults, which may be another root directory and no pod security. So do commands that
// only read.
type Copy struct {
	File string // of the user
	Path string // of the copy
}

// CopyOf returns the copy of a settings file in a directory, see CopiesDir.
func CopyOf(dir, file string) Copy {
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	sum := sha256.Sum256([]byte(file))
	return Copy{File: file, Path: filepath.Join(dir, hex.EncodeToString(sum[:8]))}
}

// Read returns the content, or nil if there is none.
func (c Copy) Read(ctx context.Context) []byte {
	return copyFile.Examine(ctx, c.Path).Value
}

// Keep stores the content of the settings file, if it has changed. Data is nil if the file does not exist: the defaults
// are then the last valid settings, and Keep removes the copy. Keep ignores pipes and devices, because their next
// content is unrelated.
func (c Copy) Keep(ctx context.Context, data []byte) error {
	if data == nil {
		if err := statefile.Remove(c.Path); err != nil {
			return fmt.Errorf("remove %s: %w", copyFile.What, err)
		}
		return nil
	}
	if info, err := os.Stat(c.File); err != nil || !info.Mode().IsRegular() || bytes.Equal(c.Read(ctx), data) {
		return nil
	}
	if err := copyFile.Write(c.Path, data); err != nil {
		return fmt.Errorf("store %s: %w", copyFile.What, err)
	}
	if err := c.dropOthers(); err != nil {
		return fmt.Errorf("remove earlier copies: %s: %w", copyFile.What, err)
	}
	return nil
}

// dropOthers removes the oldest copies if there are more than maxCopies: a file that was used only once, such as one of a
// test, would leave its copy forever. It keeps that of the default file, and c itself.
func (c Copy) dropOthers() error {
	dir := filepath.Dir(c.Path)
	paths, err := hostfile.Entries(dir, "", "")
	if err != nil || len(paths) <= maxCopies {
		return err
	}
	changed := map[string]time.Time{}
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil {
			changed[path] = info.ModTime()
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return changed[b].Compare(changed[a]) })
	keep := []string{c.Path, CopyOf(dir, ConfigFile()).Path}
	for _, path := range paths[maxCopies:] {
		if !slices.Contains(keep, path) {
			err = errors.Join(err, statefile.Remove(path))
		}
	}
	return err
}
