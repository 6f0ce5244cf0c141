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

	"github.com/podrun/podrun/hostfile"
)

// A directory of the cgroup file system cannot be made and marked in one step. So what
// is about to be made is written down, under the lock: the next podrun that takes the
// lock marks what one that was killed in between had made.

// maxMaking bounds the file, in bytes: a group has one directory a hierarchy.
const maxMaking = 1 << 20

// making is the file.
func (p Plan) making() string { return filepath.Join(p.Lock, "making") }

// noteMaking writes down the directories that are about to be made, with what is to be
// noted on each. That it cannot be written hinders nothing: they are only missed by a
// removal after a kill.
func (p Plan) noteMaking(g Group, missing []string) {
	if len(missing) == 0 {
		return
	}
	var b strings.Builder
	for _, dir := range missing {
		fmt.Fprintf(&b, "%d %s\n", milliOf(g, dir), dir)
	}
	_ = os.WriteFile(p.making(), []byte(b.String()), 0o600)
}

// made says that what was to be made is marked.
func (p Plan) made() { _ = os.Remove(p.making()) }

// markMade marks what a podrun had made that was killed before it could mark it. The
// lock must be held.
func (p Plan) markMade(ctx context.Context) error {
	data, readErr := hostfile.ReadNoFollow(ctx, p.making(), maxMaking)
	if errors.Is(readErr, fs.ErrNotExist) {
		return nil
	}
	var err error // a file that cannot be read counts as none
	for line := range strings.Lines(string(data)) {
		number, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		milli, parseErr := strconv.ParseInt(number, 10, 64)
		if parseErr != nil || !p.within(dir) || marked(dir) {
			continue
		}
		if markErr := mark(dir, milli); markErr != nil && !errors.Is(markErr, fs.ErrNotExist) {
			err = errors.Join(err, markErr)
		}
	}
	if err != nil {
		return fmt.Errorf("mark the cgroups that a podrun made that was killed: %w", err)
	}
	p.made()
	return nil
}

// within tells whether a directory is in one of the hierarchies.
func (p Plan) within(dir string) bool {
	for _, mount := range p.Mounts {
		if strings.HasPrefix(filepath.Clean(dir), mount+"/") {
			return true
		}
	}
	return false
}
