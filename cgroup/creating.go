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

// Creating a cgroup directory and setting its extended attributes is not atomic. Therefore podrun
// first records the directories that it will create, while it holds the lock. If podrun is killed
// before it sets the attributes, the next podrun process that acquires the lock sets them.

// maxMaking is the maximum size of the record, in bytes. A group has one directory per
// hierarchy.
const maxMaking = 1 << 20

// makingRoot begins a line of the record that contains a quoted root directory. The next line
// contains a cgroup directory that belongs to this root directory.
const makingRoot = "root"

// making returns the path of the record.
func (p Plan) making() string { return filepath.Join(p.Lock, "making") }

// recordCreating records the directories that podrun will create, with their attributes. It ignores errors: their
// only effect is that a later removal misses these directories if podrun is killed.
func (p Plan) recordCreating(g Group, missing []string) {
	if len(missing) == 0 {
		return
	}
	var b strings.Builder
	for _, dir := range missing {
		b.WriteString(recordLines(p.noteFor(g, dir), dir))
	}
	_ = os.WriteFile(p.making(), []byte(b.String()), 0o600)
}

// recordLines returns the lines of a record for a directory. Older versions of podrun cannot parse the line
// with the root directory, so they skip it.
func recordLines(note markValues, dir string) string {
	return fmt.Sprintf("%s %q\n%d %s\n", makingRoot, note.rootDir, note.milli, dir)
}

// removeCreatingRecord removes the record that recordCreating wrote. The caller must first set the attributes
// of the created directories.
func (p Plan) removeCreatingRecord() { _ = os.Remove(p.making()) }

// markInterrupted sets the attributes of directories that a podrun process created before it was
// killed. The caller must hold the lock.
func (p Plan) markInterrupted(ctx context.Context) error {
	// An interrupted process must read the record, too: otherwise it would remove the record unread.
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	data, readErr := hostfile.ReadNoFollow(short, p.making(), maxMaking)
	if errors.Is(readErr, fs.ErrNotExist) {
		return nil
	}
	if readErr != nil && short.Err() != nil {
		return fmt.Errorf("read the cgroups that a killed podrun process created: %w", readErr)
	}
	// A file that cannot be read counts as empty.
	if err := p.hierarchies().markRecorded(data); err != nil {
		return fmt.Errorf("mark the cgroups that a killed podrun process created: %w", err)
	}
	p.removeCreatingRecord()
	return nil
}

// markRecorded sets the attributes of the existing directories that are in a record and have no
// attributes. It skips lines that it cannot parse.
func (h hierarchies) markRecorded(data []byte) (err error) {
	var note markValues
	for line := range strings.Lines(string(data)) {
		number, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if number == makingRoot {
			// The root directory is empty if an older version of podrun wrote the record.
			note.rootDir, _ = strconv.Unquote(dir)
			continue
		}
		milli, parseErr := strconv.ParseInt(number, 10, 64)
		if parseErr != nil || !h.within(dir) || !unmarked(dir) {
			continue
		}
		note.milli = milli
		if markErr := mark(dir, note); markErr != nil && !errors.Is(markErr, fs.ErrNotExist) {
			err = errors.Join(err, markErr)
		}
	}
	return err
}
