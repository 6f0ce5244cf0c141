package volume

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/podrun/podrun/internal/identity"
)

func TestChangeHosts(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	path := layout.Pod("u").EtcHosts()
	const mark = "\n# mark\n"
	change := func(section string) error {
		return ChangeHosts(layout, "u", mark, func(string) string { return section })
	}
	if err := change("x"); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteHosts(t.Context(), layout, "u", []byte("long content")); err != nil {
		t.Fatal(err)
	}
	mounted, err := os.Open(path) // the file remains open, as in a container that mounts it
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	for _, section := range []string{mark + "a\nb\nc\n", mark + "d\n", mark + "e\n", mark + "e\n", ""} {
		if err := change(section); err != nil {
			t.Error(err)
		}
		want := "long content" + section
		buf := make([]byte, 100)
		if n, _ := mounted.ReadAt(buf, 0); string(buf[:n]) != want {
			t.Errorf("the container reads %q, want %q", buf[:n], want)
		}
	}
	if err := ReclaimFiles(layout, "u", 0); err != nil {
		t.Fatal(err)
	}
	if err := change("x"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("an emptied file is written again: %v, %v", info, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("host"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	_ = change("x")
	if data, _ := os.ReadFile(target); string(data) != "host" {
		t.Errorf("it follows a symbolic link: %q", data)
	}
}

// TestChangeHostsIsBounded checks that the memory for a hosts file does not depend on what a container
// has written to it, and that podrun writes nothing to a file that it cannot read completely.
func TestChangeHostsIsBounded(t *testing.T) {
	const mark, names = "\n# mark\n", "\n# mark\n10.0.0.1\tweb\n"
	line := "10.0.0.1\tname\n"
	big := strings.Repeat(line, 8<<20/len(line))
	for _, tt := range []struct {
		name, file string
		size       int64 // of a sparse file
		tooLarge   bool
		want       string
	}{
		{name: "large base", file: big, tooLarge: true},
		{name: "mark after the limit", file: strings.Repeat("x", MaxHosts+1) + names, tooLarge: true},
		{name: "mark at the limit", file: strings.Repeat("x", MaxHosts) + names, want: strings.Repeat("x", MaxHosts) + names},
		{name: "base at the limit", file: strings.Repeat("x", MaxHosts), want: strings.Repeat("x", MaxHosts) + names},
		{name: "large section", file: "base" + mark + big, want: "base" + names},
		{name: "sparse file", file: "base", size: 1 << 40, tooLarge: true},
		{name: "sparse section", file: "base" + names, size: 1 << 40, want: "base" + names},
	} {
		t.Run(tt.name, func(t *testing.T) {
			layout := identity.Layout{RootDir: t.TempDir()}
			path := layout.Pod("u").EtcHosts()
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := WriteHosts(t.Context(), layout, "u", []byte(tt.file)); err != nil {
				t.Fatal(err)
			}
			if tt.size > 0 {
				if err := os.Truncate(path, tt.size); err != nil {
					t.Fatal(err)
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := ChangeHosts(layout, "u", mark, func(base string) string {
				if len(base) > MaxHosts {
					t.Errorf("the base has %d bytes", len(base))
				}
				return names
			})
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("%d bytes of memory, want less than 1 MiB", used)
			}
			if errors.Is(err, ErrHostsTooLarge) != tt.tooLarge || err != nil && !tt.tooLarge {
				t.Fatalf("error %v, want too large: %v", err, tt.tooLarge)
			}
			if tt.tooLarge {
				if info, err := os.Stat(path); err != nil || info.Size() != max(tt.size, int64(len(tt.file))) {
					t.Errorf("the file has changed: %v, %v", info, err)
				}
				return
			}
			if got, _ := os.ReadFile(path); string(got) != tt.want {
				t.Errorf("%d bytes, want %d", len(got), len(tt.want))
			}
		})
	}
}

// TestWriteHostsIsNeverEmpty reads the file, as a running container does, while podrun writes it for
// the start of another container.
func TestWriteHostsIsNeverEmpty(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	path := layout.Pod("u").EtcHosts()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("127.0.0.1\tlocalhost\n", 100)
	write := func(content string) {
		if err := WriteHosts(t.Context(), layout, "u", []byte(content)); err != nil {
			t.Error(err)
		}
	}
	write(long)
	mounted, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	var writer sync.WaitGroup
	done := make(chan struct{})
	writer.Go(func() {
		defer close(done)
		for i := range 500 {
			write(long[:len(long)-(i%2)*100])
		}
	})
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		buf := make([]byte, 20)
		if n, err := mounted.ReadAt(buf, 0); err != nil || string(buf) != long[:20] {
			t.Fatalf("a container reads %q, %v", buf[:n], err)
		}
	}
	writer.Wait()
	write("short\n")
	if text, err := os.ReadFile(path); err != nil || string(text) != "short\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestWriteHostsReplacesADirectory covers a directory that the runtime created because the file was
// missing, and a link, which must not be followed.
func TestWriteHostsReplacesADirectory(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	path := layout.Pod("u").EtcHosts()
	if err := os.MkdirAll(filepath.Join(path, "made", "by-container"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !HostsLost(layout, "u") {
		t.Error("a directory does not count as lost")
	}
	if err := ChangeHosts(layout, "u", "#", strings.ToUpper); err != nil {
		t.Errorf("the names of a Service cannot be written: %v", err)
	}
	if err := WriteHosts(t.Context(), layout, "u", []byte("content")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "content" || HostsLost(layout, "u") {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir()+"/target", path); err != nil {
		t.Fatal(err)
	}
	if err := WriteHosts(t.Context(), layout, "u", []byte("content")); err == nil {
		t.Error("it writes through a symbolic link")
	}
}
