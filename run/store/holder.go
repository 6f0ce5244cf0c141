package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// unknownHolder describes a holder whose name is not known.
const unknownHolder = "another podrun"

// holderMark begins the bracketed part of a holder's name. Without it, an older podrun wrote the name,
// with all arguments of its command line: these may be passwords (`podrun run -e PASSWORD=…`), and the
// file still exists when the process has ended.
const holderMark = "named"

// NewHolder returns the name of this process for lock files and owner records. command is the program,
// its command and the names of its objects; invocation makes the name unique.
func NewHolder(command, invocation string) string {
	return fmt.Sprintf("process %d (%s) [%s %s]", os.Getpid(), command, holderMark, invocation)
}

// Holder returns the name of the process that holds the lock at path, or a general description if the
// name is unknown.
func Holder(path string) string {
	data, err := hostfile.ReadNoFollow(context.Background(), path, maxHolder)
	if who := strings.TrimSpace(string(data)); err == nil && who != "" {
		return who
	}
	return unknownHolder
}

// ShownHolder returns a holder's name without its invocation ID, for messages. If an older podrun
// wrote the name, the result has no arguments.
func ShownHolder(who string) string {
	shown, rest, _ := strings.Cut(who, " [")
	if strings.HasPrefix(rest, holderMark+" ") {
		return shown
	}
	m := oldHolder().FindStringSubmatch(shown)
	switch {
	case m == nil:
		return unknownHolder
	case m[1] != "":
		return m[1] + m[2] + ")"
	}
	return m[2]
}

// oldHolder matches the begin of the name of an older podrun, up to the command: "process 7 (podrun
// run", or for the lock of the embedded runtime "podrun run".
var oldHolder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(process \d+ \()?(podrun[a-z-]*(?: [a-z][a-z-]*\b)?)`)
})

// isOld reports whether an older podrun wrote the name of a holder, and it may have arguments.
func isOld(who string) bool {
	_, rest, _ := strings.Cut(who, " [")
	return who != "" && !strings.HasPrefix(rest, holderMark+" ") && who != ShownHolder(who)
}

// RewriteHolders removes the arguments of commands from the lock files and owner records of an older
// podrun. The argument locks are the lock files that are not in the layout. A file whose lock a process
// holds remains, and the next call rewrites it. When all files are rewritten, later calls do nothing.
func RewriteHolders(layout identity.Layout, locks ...string) error {
	if _, err := os.Lstat(layout.Locks().HoldersMark()); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	before := len(locks)
	dir := string(layout.Locks())
	err := sweepDir(dir, func(name string) { locks = append(locks, filepath.Join(dir, name)) })
	if err != nil || len(locks) == before {
		return err // no command has changed this root directory yet
	}
	locks = append(locks, layout.Serve().Lock())
	complete := true
	for _, path := range locks {
		done, err := rewriteLock(path)
		if err != nil {
			return err
		}
		complete = complete && done
	}
	var owners []string
	if err := sweepDir(layout.Owners(), func(name string) { owners = append(owners, name) }); err != nil {
		return err
	}
	for _, name := range owners {
		id, ok := identity.LockedPod(name)
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		done, err := rewriteOwner(layout, id)
		if err != nil {
			return err
		}
		complete = complete && done
	}
	if !complete {
		return nil
	}
	// The file is empty, so that it needs no temporary file, which a killed process would leave behind.
	f, err := os.OpenFile(layout.Locks().HoldersMark(), unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("note that no lock file has the arguments of commands: %w", err)
	}
	return f.Close()
}

// rewriteLock shortens the holder's name in a lock file. It returns false if a process holds the lock.
func rewriteLock(path string) (done bool, err error) {
	data, err := hostfile.ReadNoFollow(context.Background(), path, maxHolder)
	switch {
	case errors.Is(err, hostfile.ErrTooLarge): // the name of a process with long arguments
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, hostfile.ErrNotRegular):
		return true, nil
	case err != nil:
		return false, err
	case !isOld(strings.TrimSpace(string(data))):
		return true, nil
	}
	f, err := FlockFile(path, unix.O_RDWR)
	if f == nil || errors.Is(err, fs.ErrNotExist) {
		return err != nil, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = hostfile.Unlock(f) }()
	return true, writeHolder(f, ShownHolder(Holder(path)))
}

// rewriteOwner shortens the holder's name in a pod's owner record. It returns false if a process holds
// the pod's lock. It does not change a record that a newer podrun wrote.
func rewriteOwner(layout identity.Layout, id identity.Pod) (done bool, err error) {
	if r, err := ReadOwner(layout, id); err != nil || r == nil || !isOld(r.Holder) {
		return true, nil
	}
	f, err := LockFile(layout.Locks().Pod(id))
	if f == nil || err != nil {
		return false, err
	}
	defer func() { _ = hostfile.Unlock(f) }()
	r, err := ReadOwner(layout, id)
	if err != nil || r == nil || !isOld(r.Holder) {
		return true, nil
	}
	r.Holder = ShownHolder(r.Holder)
	return true, writeOwner(layout, id, *r)
}
