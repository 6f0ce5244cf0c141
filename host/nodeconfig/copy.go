package nodeconfig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/internal/statefile"
)

// copiesDir is root's directory with the copies of settings files (Copy). It does not depend on the settings, because
// podrun reads it if the settings cannot be used.
const copiesDir = "/var/lib/podrun/config"

// CopiesDir returns the directory with the copies of settings files.
func CopiesDir() string {
	if rootless.User() {
		return filepath.Join(rootless.DataDir(), filepath.Base(copiesDir))
	}
	return copiesDir
}

// copyFile is the last valid content of a settings file. A copy that cannot be read counts as absent: a command then
// fails because of the settings file itself, which it reports.
var copyFile = statefile.Declare(statefile.Kind[[]byte]{
	What: "the last valid settings", Files: copiesDir + "/<hash of the file's path>", Scope: statefile.Host,
	On: statefile.Answers{Absent: "podrun has not used the settings file", Corrupt: statefile.Ignore, Unreadable: statefile.Ignore, Newer: statefile.Ignore},
	Paths: func(identity.Layout) []string {
		paths, _ := hostfile.Entries(CopiesDir(), "", "") // the directory exists only if there is a settings file
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

// CopyOf returns the copy of a settings file in a directory, which is CopiesDir except in tests.
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
	return nil
}
