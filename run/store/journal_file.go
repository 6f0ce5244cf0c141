package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// journalName is the base name of identity.PodDir.Journal.
const journalName = "events.jsonl"

// lockFile acquires the shared lock that every writer of the pod's journal holds. If the file was
// replaced after this process opened it, lockFile opens the new file. If the pod was deleted, it
// keeps the deleted file.
func (j *Journal) lockFile(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		if err := hostfile.AwaitFlock(ctx, j.file, unix.LOCK_SH); err != nil {
			return err
		}
		current, err := isCurrent(j.dir, j.file)
		if current || err != nil {
			return err
		}
		newer, err := openJournal(j.dir, journalName, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		_ = hostfile.Unlock(j.file)
		j.file = newer
	}
}

// isCurrent reports whether an open file is the pod's journal. It returns true if the pod has no
// journal file.
func isCurrent(dir *os.Root, f *os.File) (bool, error) {
	named, err := dir.Lstat(journalName)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(named, open), err
}

// compact replaces a journal that is too long with a journal of its newest events. If another
// podrun process is writing, or if a step fails, it does nothing, because it is called again for
// the next event.
func (j *Journal) compact() {
	info, err := j.file.Stat()
	if err != nil || info.Size() <= maxJournal {
		return
	}
	if hostfile.Flock(j.file, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	// The kernel releases the shared lock before it grants the exclusive one. Another process may
	// have replaced the file in between.
	named, err := j.dir.Lstat(journalName)
	if err != nil || !os.SameFile(named, info) {
		return
	}
	events, err := readEvents(j.file)
	if err != nil {
		return
	}
	var lines bytes.Buffer
	if err := encodeEvents(&lines, newestEvents(events)); err != nil {
		return
	}
	j.replace(lines.Bytes(), info)
}

// replace renames a new file over the journal, unless the pod has been deleted. The caller holds the
// file's lock exclusively, so no other running podrun process is writing a temporary file. An
// existing temporary file is a leftover of a killed process.
func (j *Journal) replace(data []byte, was fs.FileInfo) {
	const temporary = "." + journalName + ".new"
	if err := j.dir.RemoveAll(temporary); err != nil {
		return
	}
	f, err := j.dir.OpenFile(temporary, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, journalMode)
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		var named fs.FileInfo
		if named, err = j.dir.Lstat(journalName); err == nil && !os.SameFile(named, was) {
			err = fs.ErrNotExist
		}
	}
	if err == nil {
		err = j.dir.Rename(temporary, journalName)
	}
	if err != nil {
		// If the removal fails, podrun removes the file together with the pod.
		_ = j.dir.Remove(temporary)
		f.Close()
		return
	}
	j.file.Close()
	j.file = f
}

// newestEvents aggregates events. It returns the newest ones that fit into a journal, in the order of
// their last occurrence.
func newestEvents(events []event.Event) []event.Event {
	events = event.Correlate(events)
	first, size := len(events), 0
	for first > 0 && len(events)-first < keptEvents {
		data, err := json.Marshal(events[first-1])
		if size += len(data) + 1; err != nil || size > keptJournal {
			break
		}
		first--
	}
	return slices.Clone(events[first:])
}

// ReadJournal reads the events of a pod and aggregates them. It returns them in the order of their
// last occurrence. If there is no journal, it returns no events. It skips lines that are not events,
// such as a line that a crash truncated.
func ReadJournal(layout identity.Layout, uid string) ([]event.Event, error) {
	return readJournal(layout.Pod(uid).Journal())
}

// ReadServiceJournal is ReadJournal for a Service.
func ReadServiceJournal(layout identity.Layout, id identity.Pod) ([]event.Event, error) {
	return readJournal(layout.ServiceJournal(id))
}

// ServicesWithEvents lists the Services that have a journal.
func ServicesWithEvents(layout identity.Layout) (out []identity.Pod, err error) {
	entries, err := os.ReadDir(layout.ServiceEvents())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the journals of Services: %w", err)
	}
	for _, e := range entries {
		if id, ok := identity.NamedPod(e.Name()); ok {
			out = append(out, id)
		}
	}
	return out, nil
}

func readJournal(path string) ([]event.Event, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	defer f.Close()
	events, err := readEvents(f)
	if err != nil {
		return nil, fmt.Errorf("read the journal %s: %w", filepath.Base(path), err)
	}
	return event.Correlate(events), nil
}

// readEvents reads the events at the end of an open journal, without aggregating them.
func readEvents(f *os.File) ([]event.Event, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	begin := max(0, info.Size()-maxJournalRead)
	data, err := io.ReadAll(io.NewSectionReader(f, begin, maxJournalRead))
	if err != nil {
		return nil, err
	}
	// The data may begin in the middle of a line.
	if begin > 0 {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	var events []event.Event
	for line := range bytes.Lines(data) {
		var e event.Event
		if json.Unmarshal(line, &e) == nil && e.Reason != "" {
			events = append(events, e)
		}
	}
	return events, nil
}
