package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
)

// A directory of the cgroup file system cannot be created and marked in one step.
// Therefore podrun first records, under the lock, which directories it is about to
// create: if it is killed in between, the next podrun that takes the lock marks them.

// maxMaking bounds the file, in bytes: a group has one directory a hierarchy.
const maxMaking = 1 << 20

// makingRoot begins the line of the file that holds the root directory, quoted, for the next
// directory.
const makingRoot = "root"

// making is the file.
func (p Plan) making() string { return filepath.Join(p.Lock, "making") }

// noteMaking records the directories that are about to be created, with their marks. A
// failure is not an error: its only effect is that a removal after a kill misses these
// directories.
func (p Plan) noteMaking(g Group, missing []string) {
	if len(missing) == 0 {
		return
	}
	var b strings.Builder
	// An older podrun skips the lines of root directories, which it cannot parse.
	for _, dir := range missing {
		note := p.noteFor(g, dir)
		fmt.Fprintf(&b, "%s %q\n%d %s\n", makingRoot, note.rootDir, note.milli, dir)
	}
	_ = os.WriteFile(p.making(), []byte(b.String()), 0o600)
}

// made records that the created directories are marked.
func (p Plan) made() { _ = os.Remove(p.making()) }

// markMade marks directories that a podrun created before it was killed. The caller holds
// the lock.
func (p Plan) markMade(ctx context.Context) error {
	data, readErr := hostfile.ReadNoFollow(ctx, p.making(), maxMaking)
	if errors.Is(readErr, fs.ErrNotExist) {
		return nil
	}
	var err error // a file that cannot be read counts as none
	var note noteOf
	for line := range strings.Lines(string(data)) {
		number, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if number == makingRoot {
			note.rootDir, _ = strconv.Unquote(dir) // else empty, as of an older podrun
			continue
		}
		milli, parseErr := strconv.ParseInt(number, 10, 64)
		if parseErr != nil || !p.within(dir) || marked(dir) {
			continue
		}
		note.milli = milli
		if markErr := mark(dir, note); markErr != nil && !errors.Is(markErr, fs.ErrNotExist) {
			err = errors.Join(err, markErr)
		}
	}
	if err != nil {
		return fmt.Errorf("mark the cgroups that a podrun made that was killed: %w", err)
	}
	p.made()
	return nil
}

// within reports whether a directory is in one of the hierarchies.
func (p Plan) within(dir string) bool {
	for _, mount := range p.Mounts {
		if strings.HasPrefix(filepath.Clean(dir), mount+"/") {
			return true
		}
	}
	return false
}
