package podlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rotateDir creates a directory of logs. The keys of the map are names, and the values are
// contents. If a name ends in .gz, the file is compressed.
func rotateDir(t *testing.T, files map[string]string) (log string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		data := []byte(content)
		if strings.HasSuffix(name, compressSuffix) {
			data = gzipped(t, content)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "0.log")
}

func gzipped(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readDir returns the content of a directory of logs in the format of rotateDir.
func readDir(t *testing.T, log string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(filepath.Dir(log))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			out[e.Name()] = e.Type().String()
			continue
		}
		f, err := os.Open(filepath.Join(filepath.Dir(log), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var r io.Reader = f
		if strings.HasSuffix(e.Name(), compressSuffix) {
			if r, err = gzip.NewReader(f); err != nil {
				t.Fatal(err)
			}
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

// reopens returns a simulated runtime that creates the log.
func reopens(log string) func(context.Context) error {
	return func(context.Context) error { return os.WriteFile(log, []byte("new"), 0o640) }
}

// bubbleStamp returns the current time. In a synctest bubble, this is midnight of 2000-01-01 UTC.
func bubbleStamp(t *testing.T) string {
	t.Helper()
	return time.Now().Format(stampFormat)
}

func TestRotate(t *testing.T) {
	tests := []struct {
		name     string
		maxFiles int
		have     map[string]string
		want     map[string]string // expected files; NOW stands for the current time
	}{
		{"first", 5, map[string]string{"0.log": "a"}, map[string]string{"0.log": "new", "0.log.NOW": "a"}},
		{
			"the older one is compressed", 5,
			map[string]string{"0.log": "b", "0.log.19990101-000000": "a"},
			map[string]string{"0.log": "new", "0.log.NOW": "b", "0.log.19990101-000000.gz": "a"},
		},
		{
			"the oldest beyond MaxFiles is removed", 4,
			map[string]string{"0.log": "d", "0.log.19990101-000003": "c", "0.log.19990101-000002.gz": "b", "0.log.19990101-000001.gz": "a"},
			map[string]string{"0.log": "new", "0.log.NOW": "d", "0.log.19990101-000003.gz": "c", "0.log.19990101-000002.gz": "b"},
		},
		{
			"two files", 2,
			map[string]string{"0.log": "b", "0.log.19990101-000000": "a"},
			map[string]string{"0.log": "new", "0.log.NOW": "b"},
		},
		{
			"killed while it compressed", 5,
			map[string]string{"0.log": "b", "0.log.19990101-000000": "a", "0.log.19990101-000000.tmp": "half"},
			map[string]string{"0.log": "new", "0.log.NOW": "b", "0.log.19990101-000000.gz": "a"},
		},
		{
			"killed before the compressed file was removed", 5,
			map[string]string{"0.log": "b", "0.log.19990101-000000": "a", "0.log.19990101-000000.gz": "a"},
			map[string]string{"0.log": "new", "0.log.NOW": "b", "0.log.19990101-000000.gz": "a"},
		},
		{
			"killed before the log was reopened: the renamed one is written to still", 5,
			map[string]string{"0.log.19990101-000000": "a"},
			map[string]string{"0.log": "new", "0.log.19990101-000000": "a"},
		},
		{
			"the clock was set back: the order stays", 5,
			map[string]string{"0.log": "b", "0.log.20991231-235959": "a"},
			map[string]string{"0.log": "new", "0.log.21000101-000000": "b", "0.log.20991231-235959.gz": "a"},
		},
		{
			"twice a second: none is replaced", 5,
			map[string]string{"0.log": "b", "0.log.NOW": "a"},
			map[string]string{"0.log": "new", "0.log.NOW+1": "b", "0.log.NOW.gz": "a"},
		},
		{
			"what is no rotated log of it stays", 2,
			map[string]string{"0.log": "b", "1.log": "x", "0.log.bak": "x", "0.log.19990101": "x", "0.log.19990101-000000.1": "x", "10.log.19990101-000000": "x"},
			map[string]string{"0.log": "new", "0.log.NOW": "b", "1.log": "x", "0.log.bak": "x", "0.log.19990101": "x", "0.log.19990101-000000.1": "x", "10.log.19990101-000000": "x"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				names := strings.NewReplacer("NOW+1", time.Now().Add(time.Second).Format(stampFormat), "NOW", bubbleStamp(t))
				have, want := map[string]string{}, map[string]string{}
				for name, content := range tt.have {
					have[names.Replace(name)] = content
				}
				for name, content := range tt.want {
					want[names.Replace(name)] = content
				}
				log := rotateDir(t, have)
				r := Rotator{MaxFiles: tt.maxFiles}
				if err := r.Rotate(t.Context(), log, reopens(log)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, readDir(t, log)); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRotateManyTimes checks the numbers of files and lines during a day of rotations.
func TestRotateManyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := rotateDir(t, map[string]string{"0.log": "0"})
		r := Rotator{MaxFiles: 5}
		for n := 1; n <= 24; n++ {
			reopen := func(context.Context) error { return os.WriteFile(log, []byte(time.Now().Format("15")), 0o640) }
			if err := r.Rotate(t.Context(), log, reopen); err != nil {
				t.Fatal(err)
			}
			if have := readDir(t, log); len(have) != min(n+1, 5) {
				t.Fatalf("after %d rotations: %d files", n, len(have))
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestRotateFailedReopen(t *testing.T) {
	refused := errors.New("container is not running")
	for _, created := range []bool{false, true} {
		log := rotateDir(t, map[string]string{"0.log": "a"})
		r := Rotator{MaxFiles: 5}
		err := r.Rotate(t.Context(), log, func(ctx context.Context) error {
			if created {
				return errors.Join(refused, reopens(log)(ctx))
			}
			return refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("error = %v", err)
		}
		have := readDir(t, log)
		if created && (len(have) != 2 || have["0.log"] != "new") || !created && (len(have) != 1 || have["0.log"] != "a") {
			t.Errorf("the runtime created the log: %t; files: %v", created, have)
		}
	}
}

// TestRotateFollowsNothing checks that podrun does not follow links to other files that have the
// names of logs.
func TestRotateFollowsNothing(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := rotateDir(t, map[string]string{"0.log": "a"})
	for name, plant := range map[string]func(string) error{
		".19990101-000001":     func(p string) error { return os.Symlink(secret, p) },
		".19990101-000002":     func(p string) error { return os.Link(secret, p) },
		".19990101-000003":     func(p string) error { return syscall.Mkfifo(p, 0o600) },
		".19990101-000004.gz":  func(p string) error { return os.Symlink(secret, p) },
		".19990101-000005":     func(p string) error { return os.WriteFile(p, []byte("b"), 0o600) },
		".19990101-000005.tmp": func(p string) error { return os.Symlink(secret, p) },
		".19990101-000006":     func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		if err := plant(log + name); err != nil {
			t.Fatal(err)
		}
	}
	r := Rotator{MaxFiles: 10}
	if err := r.Rotate(t.Context(), log, reopens(log)); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("the secret is %q, %v", data, err)
	}
	have := readDir(t, filepath.Join(filepath.Dir(log), "0.log"))
	if have["0.log.19990101-000005.gz"] != "b" {
		t.Errorf("the log that is a regular file was not compressed: %v", have)
	}
	for name, content := range have {
		if strings.HasSuffix(name, compressSuffix) && strings.Contains(content, "secret") {
			t.Errorf("%s has the secret", name)
		}
	}
}

func TestRotateRefuses(t *testing.T) {
	log := rotateDir(t, map[string]string{"file": "a"})
	if err := os.Symlink("file", log); err != nil {
		t.Fatal(err)
	}
	r := Rotator{MaxFiles: 5}
	never := func(context.Context) error { t.Error("reopened"); return nil }
	if err := r.Rotate(t.Context(), log, never); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a link: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Symlink(filepath.Dir(log), dir); err != nil {
		t.Fatal(err)
	}
	if err := r.Rotate(t.Context(), filepath.Join(dir, "file"), never); !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link in place of the directory: %v", err)
	}
}

func TestRotateEndsWithItsContext(t *testing.T) {
	log := rotateDir(t, map[string]string{"0.log": "b", "0.log.19990101-000000": "a"})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("SIGTERM")
	cancel(gone)
	r := Rotator{MaxFiles: 5}
	if err := r.Rotate(ctx, log, reopens(log)); !errors.Is(err, gone) {
		t.Errorf("error = %v", err)
	}
	if diff := cmp.Diff(map[string]string{"0.log": "b", "0.log.19990101-000000": "a"}, readDir(t, log)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestRotateAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []Running
		for i := range 20 {
			log := rotateDir(t, map[string]string{"0.log": strings.Repeat("x", 5+i%2*5)})
			list = append(list, Running{ID: string(rune('a' + i)), Path: log})
		}
		list = append(list, Running{ID: "missing", Path: filepath.Join(filepath.Dir(list[0].Path), "9.log")},
			Running{ID: "gone", Path: filepath.Join(t.TempDir(), "gone", "0.log")})
		var now, most, calls atomic.Int32
		reopen := func(_ context.Context, id string) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			calls.Add(1)
			time.Sleep(time.Second)
			for _, c := range list {
				if c.ID == id {
					return os.WriteFile(c.Path, nil, 0o640)
				}
			}
			return nil
		}
		r := Rotator{MaxSize: 10, MaxFiles: 5, Workers: 3}
		err := r.RotateAll(t.Context(), list, reopen)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "container gone: rotate its log: open ") {
			t.Errorf("error = %v, want only that of the container without a directory", err)
		}
		if calls.Load() != 11 || most.Load() != 3 {
			t.Errorf("%d logs reopened, %d at a time; want the 10 that are large and the missing one, 3 at a time", calls.Load(), most.Load())
		}
		r.Ended = func(_ context.Context, id string) bool { return id == "gone" }
		if err := r.RotateAll(t.Context(), list, reopen); err != nil {
			t.Errorf("of a container that was removed meanwhile: %v", err)
		}
		var asked []string
		r.Ours = func(c Running) bool { asked = append(asked, c.ID); return false }
		calls.Store(0)
		if err := r.RotateAll(t.Context(), list, reopen); err != nil || calls.Load() != 0 || !slices.Equal(asked, []string{"gone"}) {
			t.Errorf("logs of other programs: %v, %d calls; Ours was called for %q, want only the missing log", err, calls.Load(), asked)
		}
		calls.Store(11)
		none := Rotator{MaxSize: -1}
		if err := none.RotateAll(t.Context(), list, reopen); err != nil || calls.Load() != 11 {
			t.Errorf("a negative size: %v, %d calls", err, calls.Load())
		}
	})
}

func TestRemoveLog(t *testing.T) {
	log := rotateDir(t, map[string]string{"0.log": "a", "0.log.19990101-000000": "a", "0.log.19990101-000001.gz": "a", "1.log": "b"})
	for range 2 {
		if err := RemoveLog(log); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]string{"1.log": "b"}, readDir(t, log)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := RemoveLog(filepath.Join(t.TempDir(), "gone", "0.log")); err != nil {
		t.Error(err)
	}
}
