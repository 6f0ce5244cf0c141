package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// openedJournal returns an open journal of a pod with a directory.
func openedJournal(t *testing.T, layout identity.Layout) *Journal {
	t.Helper()
	makePodDir(t, layout)
	j := &Journal{Pod: identity.Pod{Namespace: "default", Name: "web", UID: "u1"}}
	if err := j.Open(layout); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func journalSize(t *testing.T, layout identity.Layout) int64 {
	t.Helper()
	info, err := os.Stat(layout.Pod("u1").Journal())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// counts returns the number of occurrences of each reason.
func counts(t *testing.T, layout identity.Layout) map[string]int {
	t.Helper()
	events, err := ReadJournal(layout, "u1")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, e := range events {
		out[e.Reason] += max(1, e.Count)
	}
	return out
}

// TestD5JournalIsBounded covers a probe that keeps failing while a command supervises its pod, with 12
// MB of text or a different text each time. The journal must not fill the disk, and the event's count
// must remain correct.
func TestD5JournalIsBounded(t *testing.T) {
	long := strings.Repeat("x", 12<<20)
	for name, message := range map[string]func(i int) string{
		"the same": func(int) string { return "Readiness probe failed: down" },
		"others":   func(i int) string { return fmt.Sprint("Readiness probe failed: took ", i) },
		"long":     func(i int) string { return long },
	} {
		layout := testLayout(t)
		j := openedJournal(t, layout)
		j.Emit(event.Event{Reason: "Created"})
		n := map[bool]int{true: 200, false: 10_000}[name == "long"]
		begun := time.Now()
		for i := range n {
			j.Emit(event.Event{Time: begun.Add(time.Duration(i) * time.Second), Type: event.Warning, Reason: event.UnhealthyContainer, Message: message(i)})
			if i%100 == 0 {
				if size := journalSize(t, layout); size > maxJournal+2*event.MaxMessage {
					t.Fatalf("%s: %d bytes after %d events", name, size, i)
				}
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got := counts(t, layout); got[event.UnhealthyContainer] != n || got["Created"] != 1 {
			t.Errorf("%s: %v, want %d", name, got, n)
		}
		if events, _ := ReadJournal(layout, "u1"); len(events) > 12 {
			t.Errorf("%s: %d events are not aggregated", name, len(events))
		}
	}
}

// TestJournalKeepsTheNewest checks that the oldest events are dropped if aggregation is not
// sufficient.
func TestJournalKeepsTheNewest(t *testing.T) {
	layout := testLayout(t)
	j := openedJournal(t, layout)
	const n = 5000
	for i := range n {
		j.Emit(event.Event{Reason: fmt.Sprint("R", i), Message: strings.Repeat("x", 300)})
	}
	events, err := ReadJournal(layout, "u1")
	if err != nil || len(events) < keptEvents || events[len(events)-1].Reason != fmt.Sprint("R", n-1) {
		t.Errorf("%d events, %v", len(events), err)
	}
	for i := 1; i < len(events); i++ {
		if events[i].Time.Before(events[i-1].Time) {
			t.Fatalf("%s is before %s", events[i].Reason, events[i-1].Reason)
		}
	}
}

// TestJournalLosesNoLine checks that no line is lost while several processes concurrently write to
// the file and replace it.
func TestJournalLosesNoLine(t *testing.T) {
	layout := testLayout(t)
	const writers, n = 4, 4000
	before := openedJournal(t, layout)
	first, err := before.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range writers {
		j := openedJournal(t, layout)
		wg.Go(func() {
			for range n {
				j.Emit(event.Event{Reason: fmt.Sprint("writer", w), Message: strings.Repeat("x", 100)})
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := counts(t, layout)
	for w := range writers {
		if got[fmt.Sprint("writer", w)] != n {
			t.Errorf("writer %d: %d of %d events", w, got[fmt.Sprint("writer", w)], n)
		}
	}
	// This journal's file was replaced long ago.
	before.Emit(event.Event{Reason: "Late"})
	if got := counts(t, layout); got["Late"] != 1 {
		t.Errorf("%v", got)
	}
	if now, err := os.Stat(layout.Pod("u1").Journal()); err != nil || os.SameFile(first, now) {
		t.Errorf("the file was never replaced: the test shows nothing (%v)", err)
	}
}

// TestJournalDoesNotWaitForAStoppedPodrun covers a process that is stopped while it replaces the
// file. Writers must not wait long, and no event may be lost when the process continues.
func TestJournalDoesNotWaitForAStoppedPodrun(t *testing.T) {
	layout := testLayout(t)
	j := openedJournal(t, layout)
	other, err := os.Open(layout.Pod("u1").Journal())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	patience.Within(t, 10, "an event", func() { j.Emit(event.Event{Reason: "One"}) })
	if err := unix.Flock(int(other.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	j.Emit(event.Event{Reason: "Two"})
	if got := readReasons(t, layout); got != "One Two" {
		t.Errorf("%q", got)
	}
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	j.Emit(event.Event{Reason: "Three"})
	if err := j.Close(); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("an event was lost without an error: %v", err)
	}
}

// TestJournalOfADeletedPod covers a podrun process that still has the journal of a deleted pod
// open. It must not write to the journal of a new pod with the same UID, and must not create a file
// that would prevent the removal of the directory.
func TestJournalOfADeletedPod(t *testing.T) {
	layout := testLayout(t)
	old := openedJournal(t, layout)
	old.Emit(event.Event{Reason: "Old"})
	if err := os.Remove(layout.Pod("u1").Journal()); err != nil {
		t.Fatal(err)
	}
	for range 3000 { // enough events to compact the journal
		old.Emit(event.Event{Reason: "Late", Message: strings.Repeat("x", 300)})
	}
	if entries, err := os.ReadDir(string(layout.Pod("u1"))); err != nil || len(entries) > 0 {
		t.Fatalf("%v, %v", entries, err)
	}
	if err := os.Remove(string(layout.Pod("u1"))); err != nil {
		t.Fatal(err)
	}
	successor := openedJournal(t, layout)
	successor.Emit(event.Event{Reason: "New"})
	old.Emit(event.Event{Reason: "Late"})
	if got := readReasons(t, layout); got != "New" {
		t.Errorf("%q", got)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
}

// TestJournalThatIsNone checks that podrun replaces a file that is not a journal, skips lines that
// are not events, and reads only the end of a huge file.
func TestJournalThatIsNone(t *testing.T) {
	event1 := `{"time":"2026-01-02T03:00:00Z","namespace":"default","pod":"web","uid":"u1","reason":"Kept","message":""}` + "\n"
	for name, test := range map[string]struct {
		make func(path string) error
		want string
	}{
		"FIFO":      {func(p string) error { return unix.Mkfifo(p, 0o600) }, "New"},
		"directory": {func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o700) }, "New"},
		"symlink":   {func(p string) error { return os.Symlink("/dev/zero", p) }, "New"},
		"socket":    {func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) }, "New"},
		"garbage": {func(p string) error {
			return os.WriteFile(p, []byte("\x00\xff{\n[]\n\n{\"reason\":7}\n"+event1+"{}\nnull\n{\"re"), 0o600)
		}, "Kept New"},
		"huge": {func(p string) error {
			f, err := os.Create(p)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("\n"+event1), 1<<33)
			return err
		}, "Kept New"},
	} {
		t.Run(name, func(t *testing.T) {
			layout := testLayout(t)
			makePodDir(t, layout)
			if err := test.make(layout.Pod("u1").Journal()); err != nil {
				t.Fatal(err)
			}
			if events, err := ReadJournal(layout, "u1"); err == nil == (test.want == "New") {
				t.Errorf("%v, %v", events, err)
			}
			j := openedJournal(t, layout)
			j.Emit(event.Event{Reason: "New"})
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			if got := readReasons(t, layout); got != test.want {
				t.Errorf("%q", got)
			}
			if size := journalSize(t, layout); size > maxJournal {
				t.Errorf("%d bytes", size)
			}
		})
	}
}

// TestJournalOnAReadOnlyFileSystem checks that a pod can be deleted even if its file system is not
// writable. The journal must pass events on, and Close must return the write error.
func TestJournalOnAReadOnlyFileSystem(t *testing.T) {
	ring.RequireRoot(t)
	j, layout, seen := testJournal(t)
	makePodDir(t, layout)
	if err := unix.Mount("tmpfs", string(layout.Pod("u1")), "tmpfs", unix.MS_RDONLY, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(string(layout.Pod("u1")), 0); err != nil {
			t.Error(err)
		}
	}()
	if err := j.Open(layout); err != nil {
		t.Fatalf("open: %v", err)
	}
	j.Emit(event.Event{Reason: "Killing"})
	if err := j.Close(); err == nil || !strings.Contains(err.Error(), "read-only") || len(*seen) != 1 {
		t.Errorf("%v; %d events passed on", err, len(*seen))
	}
}
