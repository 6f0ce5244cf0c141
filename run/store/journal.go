package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// The limits for a journal's size. While a command supervises a pod, a probe that fails every second
// adds a line per second. Therefore podrun compacts a file of more than maxJournal bytes: it
// replaces the content with the aggregated newest events.
const (
	maxJournal  = 512 << 10
	keptJournal = 128 << 10 // bytes that compaction keeps
	keptEvents  = 256
	// bytes that podrun reads from the end of a file that was not compacted; an older version of podrun
	// may have left a larger file
	maxJournalRead  = 4 << 20
	journalLockWait = 100 * time.Millisecond
	journalMode     = 0o640
)

// Journal stores the events of one pod in the pod's directory, and passes them to Next. Until the
// directory exists, it buffers the events, so that a rollback leaves no file behind. It can also store the events
// of a Service, in a directory of its own.
//
// Several podrun processes may write to the same file concurrently. A process writes each line with
// one append. While it writes, it holds a shared lock on the file. A process that replaces the file
// holds an exclusive lock on it. If a process has locked a file that was replaced, it opens the new
// file, so no line is lost. The directory stays open, so that events of a deleted pod are never
// written to the journal of a new pod with the same UID.
type Journal struct {
	Pod  identity.Pod
	Next event.Sink
	// Kind is the kind of the object if it is not a pod: Service. Pod is then the name of the object.
	Kind string

	mu   sync.Mutex
	dir  *os.Root // nil until Open is called
	file *os.File
	held []event.Event // events that have not been written yet
	err  error         // the first write error; Close returns it
}

// Emit is an event.Sink. It sets the event's pod and, if it is zero, the event's time.
func (j *Journal) Emit(e event.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.Namespace, e.UID = j.Pod.Namespace, j.Pod.UID; j.Kind != "" {
		e.Kind = j.Kind
		e.Name = j.Pod.Name
	} else {
		e.Pod = j.Pod.Name
	}
	e.Message = event.Cut(e.Message)
	j.mu.Lock()
	j.held = append(j.held, e)
	if len(j.held) > 4*keptEvents {
		j.held = newestEvents(j.held)
	}
	if j.file != nil {
		j.flush(journalLockWait)
	}
	j.mu.Unlock()
	if j.Next != nil {
		j.Next(e)
	}
}

// Inherit adds the events of the pod that this one replaces. The caller must read them before it
// removes that pod. Open writes them.
func (j *Journal) Inherit(events []event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = newestEvents(slices.Concat(events, j.held))
}

// Open opens the journal in the pod's directory and writes the buffered events. On a file system that
// is full or read-only, it continues to buffer and returns nil, because delete must not depend on a
// journal. Close then returns the error.
func (j *Journal) Open(layout identity.Layout) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		return nil
	}
	path := layout.Pod(j.Pod.UID).Journal()
	if j.Kind != "" {
		path = layout.ServiceJournal(j.Pod)
		if err := MakeStateDir(filepath.Dir(path)); err != nil {
			return j.unusable(err)
		}
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open the journal of %s: %w", j.object(), err)
	}
	file, err := openJournal(dir, filepath.Base(path), os.O_CREATE)
	if err != nil {
		dir.Close()
		return j.unusable(err)
	}
	j.dir = dir
	j.file = file
	j.flush(journalLockWait)
	return nil
}

// unusable returns why the journal cannot be opened. If the file system is full or read-only, it records the error
// and returns nil.
func (j *Journal) unusable(err error) error {
	err = fmt.Errorf("open the journal of %s: %w", j.object(), err)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		j.fail(err)
		return nil
	}
	return err
}

func (j *Journal) object() string {
	return cmp.Or(strings.ToLower(j.Kind), "pod") + " " + j.Pod.String()
}

// openJournal opens the journal in a pod's directory. If the file is not a regular file, openJournal
// replaces it if create is os.O_CREATE; otherwise it returns errNotRegular.
func openJournal(dir *os.Root, name string, create int) (*os.File, error) {
	for again := create != 0; ; again = false {
		f, err := dir.OpenFile(name, os.O_RDWR|os.O_APPEND|unix.O_NONBLOCK|unix.O_NOFOLLOW|create, journalMode)
		if err == nil {
			var info fs.FileInfo
			if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
				return f, nil
			}
			f.Close()
			if err == nil {
				err = errNotRegular
			}
		}
		if info, lerr := dir.Lstat(name); !again || lerr != nil || info.Mode().IsRegular() {
			return nil, err
		}
		if err := dir.RemoveAll(name); err != nil {
			return nil, err
		}
	}
}

var errNotRegular = errors.New("not a regular file")

// fail records the error if it is the first one.
func (j *Journal) fail(err error) {
	if j.err == nil {
		j.err = err
	}
}

// flush writes the buffered events. If another podrun process is replacing the file, which takes
// milliseconds, flush waits. If the replacement takes longer than wait, flush keeps the events until
// the next call.
func (j *Journal) flush(wait time.Duration) {
	if len(j.held) == 0 {
		return
	}
	err := j.lockFile(wait)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return
	}
	// Flock fails only if the file is not a regular file.
	defer func() { _ = hostfile.Flock(j.file, unix.LOCK_UN) }()
	if err == nil {
		err = j.append()
	}
	if err != nil {
		j.fail(fmt.Errorf("write the journal of %s: %w", j.object(), err))
	}
	j.held = nil
	if err == nil {
		j.compact()
	}
}

// append writes the buffered events with a single write. If a crash truncated the last line of the
// file, append ends that line first.
func (j *Journal) append() error {
	var lines bytes.Buffer
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := j.file.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			lines.WriteByte('\n')
		}
	}
	if err := encodeEvents(&lines, j.held); err != nil {
		return err
	}
	_, err = j.file.Write(lines.Bytes())
	return err
}

func encodeEvents(w io.Writer, events []event.Event) error {
	encoder := json.NewEncoder(w)
	for _, e := range events {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the journal and returns the first write error.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		const lastWait = 20 * journalLockWait
		j.flush(lastWait)
		if len(j.held) > 0 {
			j.fail(fmt.Errorf("write the journal of %s: another process has kept it locked for %s", j.object(), lastWait))
			j.held = nil
		}
		j.err = errors.Join(j.err, j.file.Close(), j.dir.Close())
		j.file = nil
		j.dir = nil
	}
	return j.err
}
