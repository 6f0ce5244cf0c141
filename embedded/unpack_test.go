package embedded

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packed returns an uncompressed archive with the given files. The function entry may modify
// each header.
func packed(t *testing.T, files map[string]string, entry func(*tar.Header)) Archive {
	t.Helper()
	var sums strings.Builder
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		sum := sha256.Sum256([]byte(files[name]))
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range append([]string{sumsFile}, names...) {
		text := files[name]
		if name == sumsFile {
			text = sums.String()
		}
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if entry != nil {
			entry(h)
		}
		if h.Typeflag != tar.TypeReg {
			h.Size, text = 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	sum := sha256.Sum256(data)
	return Archive{Digest: hex.EncodeToString(sum[:]), Unpacked: int64(len(data)),
		Reader: func() io.Reader { return bytes.NewReader(data) },
		Tar:    func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

var plain = map[string]string{"bin/containerd": "a daemon", "bin/runc": "a runtime", "share/versions.json": "{}"}

func layoutIn(t *testing.T) Layout {
	t.Helper()
	l := Layout{RootDir: t.TempDir(), RunDir: t.TempDir()}
	if err := MakeDirs(l); err != nil {
		t.Fatal(err)
	}
	return l
}

// leftIn lists the content of the layout's directory.
func leftIn(t *testing.T, l Layout) string {
	t.Helper()
	entries, err := os.ReadDir(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestUnpack(t *testing.T) {
	ctx, l, a := context.Background(), layoutIn(t), packed(t, plain, nil)
	// These are leftovers of a podrun process that was killed.
	if err := os.MkdirAll(filepath.Join(l.Dir(), ".unpack-1/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(ctx, l, a); err != nil {
		t.Fatal(err)
	}
	for name, want := range plain {
		path := filepath.Join(l.Unpacked(a.Digest), name)
		got, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(got) != want || info.Mode() != 0o755 {
			t.Errorf("%s: %q, %v, %v", name, got, info.Mode(), err)
		}
	}
	if left := leftIn(t, l); left != a.Digest {
		t.Errorf("%s is in the directory", left)
	}
	before, err := os.Stat(l.Unpacked(a.Digest))
	if err != nil {
		t.Fatal(err)
	}
	if err := Unpack(ctx, l, a); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(l.Unpacked(a.Digest)); err != nil || !os.SameFile(before, after) {
		t.Errorf("existing files were unpacked again: %v", err)
	}
}

func TestUnpackReplacesWhatIsBroken(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"a file is cut":         func(dir string) error { return os.Truncate(filepath.Join(dir, "bin/runc"), 3) },
		"a file is missing":     func(dir string) error { return os.Remove(filepath.Join(dir, "bin/runc")) },
		"the list is missing":   func(dir string) error { return os.Remove(filepath.Join(dir, sumsFile)) },
		"the list is shortened": func(dir string) error { return os.Truncate(filepath.Join(dir, sumsFile), 81) },
		"a file is another": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "bin/containerd"), []byte("b daemon"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, l, a := context.Background(), layoutIn(t), packed(t, plain, nil)
			if err := Unpack(ctx, l, a); err != nil {
				t.Fatal(err)
			}
			if err := spoil(l.Unpacked(a.Digest)); err != nil {
				t.Fatal(err)
			}
			if err := verifyAgainst(ctx, l, a); err == nil {
				t.Fatal("a broken directory counts as complete")
			}
			if err := Unpack(ctx, l, a); err != nil {
				t.Fatal(err)
			}
			if err := verifyAgainst(ctx, l, a); err != nil {
				t.Error(err)
			}
			if left := leftIn(t, l); left != a.Digest {
				t.Errorf("%s is in the directory", left)
			}
		})
	}
}

func TestUnpackRefusesADamagedArchive(t *testing.T) {
	bad := func(change func(*tar.Header)) func(*testing.T) Archive {
		return func(t *testing.T) Archive { return packed(t, plain, change) }
	}
	for name, c := range map[string]struct {
		archive func(*testing.T) Archive
		want    string
	}{
		"another digest": {func(t *testing.T) Archive { a := packed(t, plain, nil); a.Digest = otherDigest; return a }, "this podrun binary is damaged"},
		"cut": {func(t *testing.T) Archive {
			a := packed(t, plain, nil)
			whole, err := io.ReadAll(a.Reader())
			if err != nil {
				t.Fatal(err)
			}
			a.Tar = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole[:1600])), nil }
			return a
		}, "is not in the archive"},
		"leaves the directory": {bad(func(h *tar.Header) {
			if h.Name == "bin/runc" {
				h.Name = "../../runc"
			}
		}), "unexpected entry"},
		"a link": {bad(func(h *tar.Header) {
			if h.Name == "bin/runc" {
				h.Typeflag, h.Linkname = tar.TypeSymlink, "/bin/sh"
			}
		}), "unexpected entry"},
		"a file that the list lacks": {bad(func(h *tar.Header) {
			if h.Name == "bin/runc" {
				h.Name = "bin/other"
			}
		}), "SHA-256"},
		"no list": {bad(func(h *tar.Header) {
			if h.Name == sumsFile {
				h.Name = "README"
			}
		}), "begins with"},
	} {
		t.Run(name, func(t *testing.T) {
			l := layoutIn(t)
			err := Unpack(context.Background(), l, c.archive(t))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left := leftIn(t, l); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func TestTrimLog(t *testing.T) {
	l := layoutIn(t)
	if err := TrimLog(l); err != nil {
		t.Fatalf("no log yet: %v", err)
	}
	appending, err := os.OpenFile(l.Log(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer appending.Close()
	line := strings.Repeat("x", 99)
	for i := range maxLog/110 + 1 {
		if _, err := fmt.Fprintf(appending, "%09d %s\n", i, line); err != nil {
			t.Fatal(err)
		}
	}
	// The second call has nothing to do.
	for i, want := range []int64{maxLog / 2, maxLog / 2} {
		if err := TrimLog(l); err != nil {
			t.Fatal(err)
		}
		if size, err := logSize(l); err != nil || size > want || size < want-110 {
			t.Fatalf("%d: %d bytes are left, %v", i, size, err)
		}
	}
	if _, err := fmt.Fprintln(appending, "the last"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(l.Log())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines[0]) != 109 || lines[len(lines)-2] != "the last" || lines[len(lines)-3][:9] != fmt.Sprintf("%09d", maxLog/110) {
		t.Errorf("begins with %q, ends with %q", lines[0], lines[len(lines)-3:])
	}
	if got := lastWords(readSince(t.Context(), l, int64(len(data))-9)); got != "the last" {
		t.Errorf("the last lines are %q", got)
	}
}

func TestADaemonIsKnownByItsStart(t *testing.T) {
	_, started, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if d := (&Daemon{PID: os.Getpid(), StartTime: started}); !d.Alive() {
		t.Error("this process does not run")
	}
	if d := (&Daemon{PID: os.Getpid(), StartTime: started - 1}); d.Alive() {
		t.Error("another process with the same PID counts as the daemon")
	}
	var none *Daemon
	if none.Alive() {
		t.Error("a missing daemon counts as running")
	}
	l := layoutIn(t)
	ctx := context.Background()
	boot, err := bootID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"schemaVersion":1,"pid":7,"startTime":1,"bootID":"` + boot + `","digest":"` + someDigest + `"}`: true,
		`{"schemaVersion":1,"pid":7,"startTime":1,"bootID":"earlier","digest":"` + someDigest + `"}`:      false,
		`{"schemaVersion":1,"pid":7,"startTime":1,"bootID":"` + boot + `","digest":"x"}`:                  false,
		`{`: false,
	} {
		if err := os.MkdirAll(l.State(), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.Daemon(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ReadDaemon(ctx, l); (got != nil) != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
