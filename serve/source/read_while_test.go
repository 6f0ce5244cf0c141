package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/test/ring"
)

// Whatever way a writer uses to change the file, either the old pod or the new one must be in
// effect.
func TestReadWhileWritten(t *testing.T) {
	ring.RequireRoot(t)
	const was, is = "web=old db=old", "web=new db=new"
	old := pod("web", "old") + "---\n" + pod("db", "old")
	changed := pod("web", "new") + "---\n" + pod("db", "new")
	writers := writersOf(changed)
	// There is a directory for each writer, so that the test waits only once until all files have settled.
	readers := map[string]*Reader{}
	for name := range writers {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "web.yaml"), old)
		// A busy host may suspend a writer between two lines for a while.
		readers[name] = readerOf(t, Options{Dirs: []string{dir}, Settle: time.Second})
		read(t, readers[name])
	}
	for name, change := range writers {
		t.Run(name, func(t *testing.T) {
			r := readers[name]
			path, old := filepath.Join(r.Dirs()[0], "web.yaml"), time.Now().Add(-time.Hour)
			// The kernel may show a truncated file with its new size and its old time.
			do(t, os.Chtimes(path, old, old))
			if s, _ := settled(t, r); pods(s) != was {
				t.Fatal(pods(s))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				change(t, path)
			}()
			defer func() { <-done }()
			readUntil(t, r, done, was, is)
			s, news := settled(t, r)
			if pods(s) != is || news != "" {
				t.Errorf("at the end: %s, %q", pods(s), news)
			}
		})
	}
}

// readUntil reads until done is closed. In each read, exactly one of two pods must be in
// effect, and no problem may be reported.
func readUntil(t *testing.T, r *Reader, done <-chan struct{}, was, is string) {
	t.Helper()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		s := read(t, r)
		if got := pods(s); got != was && got != is {
			t.Fatalf("pods are %q: %+v", got, s.Dirs[0].Files)
		}
		if len(s.News) > 0 {
			t.Fatalf("reported: %s", s.News)
		}
	}
}

// save writes a file in chunks.
func save(t *testing.T, path string, flags int, chunks ...string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o644)
	do(t, err)
	for _, c := range chunks {
		_, err := f.WriteString(c)
		do(t, err)
		time.Sleep(time.Millisecond)
	}
	do(t, f.Close())
}

// writersOf returns functions, by name. Each changes a file to the given content in a different
// way.
func writersOf(changed string) map[string]func(t *testing.T, path string) {
	large := changed + "---\n" + configMap("pad", strings.Repeat("x", 1<<19))
	return map[string]func(t *testing.T, path string){
		"truncate and write": func(t *testing.T, path string) { save(t, path, os.O_TRUNC, changed) },
		"one byte at a time": func(t *testing.T, path string) { save(t, path, os.O_TRUNC, strings.Split(changed, "")...) },
		"one line at a time, closed after each": func(t *testing.T, path string) {
			save(t, path, os.O_TRUNC)
			for line := range strings.Lines(changed) {
				save(t, path, os.O_APPEND, line)
			}
		},
		"vim": func(t *testing.T, path string) {
			write(t, filepath.Join(filepath.Dir(path), "4913"), "")
			do(t, os.Remove(filepath.Join(filepath.Dir(path), "4913")), os.Rename(path, path+"~"))
			time.Sleep(5 * time.Millisecond)
			save(t, path, os.O_EXCL, changed)
			do(t, os.Chmod(path, 0o600), os.Remove(path+"~"))
		},
		"emacs": func(t *testing.T, path string) {
			base := filepath.Base(path)
			do(t, os.Symlink("me@host.1", filepath.Join(filepath.Dir(path), ".#"+base)))
			write(t, filepath.Join(filepath.Dir(path), "#"+base+"#"), changed)
			do(t, os.Rename(path, path+"~"))
			time.Sleep(5 * time.Millisecond)
			save(t, path, os.O_EXCL, changed)
			do(t, os.Remove(filepath.Join(filepath.Dir(path), ".#"+base)), os.Remove(filepath.Join(filepath.Dir(path), "#"+base+"#")))
		},
		"mv": func(t *testing.T, path string) {
			write(t, path+".tmp", changed)
			do(t, os.Rename(path+".tmp", path))
		},
		"a slow copy of a large file": func(t *testing.T, path string) {
			var chunks []string
			for rest := large; rest != ""; {
				n := min(len(rest), 8<<10)
				chunks, rest = append(chunks, rest[:n]), rest[n:]
			}
			save(t, path, os.O_TRUNC, chunks...)
		},
		"removed and written": func(t *testing.T, path string) {
			do(t, os.Remove(path))
			time.Sleep(10 * time.Millisecond)
			save(t, path, os.O_EXCL, changed)
		},
	}
}
