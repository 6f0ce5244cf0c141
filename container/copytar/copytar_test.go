package copytar

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// archive returns a tar stream.
func archive(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		content := ""
		if e.Typeflag == 0 {
			e.Typeflag, content = tar.TypeReg, "of "+e.Name
			e.Size = int64(len(content))
		}
		if e.Mode == 0 {
			e.Mode = 0o644
		}
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// tree returns the files below a directory with their content.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if d.Type().IsRegular() {
			data, readErr := os.ReadFile(at)
			rel, err = rel+"="+string(data), errors.Join(err, readErr)
		}
		if d.IsDir() {
			rel += "/"
		}
		out = append(out, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestUnpackCopiesNothing covers a requested entry that is not a file or directory. Unpack must return an
// error, because there is nothing to copy.
func TestUnpackCopiesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		kind byte
		want error
	}{"a symlink": {tar.TypeSymlink, ErrLink}, "a FIFO": {tar.TypeFifo, errSpecial}, "a device": {tar.TypeChar, errSpecial}} {
		t.Run(name, func(t *testing.T) {
			here := t.TempDir()
			err := Unpack(t.Context(), archive(t, tar.Header{Name: "./f", Typeflag: c.kind, Linkname: "/etc/passwd"}), "f", filepath.Join(here, "new"), func(string) {})
			if !errors.Is(err, c.want) {
				t.Errorf("the error is %v, want %v", err, c.want)
			}
			if got := tree(t, here); len(got) > 0 {
				t.Errorf("created %q", got)
			}
		})
	}
}

func TestUnpack(t *testing.T) {
	dir := tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o555}
	for name, c := range map[string]struct {
		top, to  string
		entries  []tar.Header
		want     []string
		warnings int
	}{
		"a file gets the name":           {"f", "new", []tar.Header{{Name: "./f"}}, []string{"new=of ./f"}, 0},
		"a directory gets the name":      {"d", "new", []tar.Header{dir, {Name: "./d/a"}, {Name: "d/e/b"}}, []string{"new/", "new/a=of ./d/a", "new/e/", "new/e/b=of d/e/b"}, 0},
		"a directory that is there":      {".", "old", []tar.Header{{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "./a"}}, []string{"old/", "old/a=of ./a", "old/was=here"}, 0},
		"a file is replaced":             {".", "old", []tar.Header{{Name: "./was"}}, []string{"old/", "old/was=of ./was"}, 0},
		"a hard link within":             {"d", "new", []tar.Header{dir, {Name: "./d/a"}, {Name: "./d/l", Typeflag: tar.TypeLink, Linkname: "./d/a"}}, []string{"new/", "new/a=of ./d/a", "new/l=of ./d/a"}, 0},
		"symlinks and devices are left":  {"d", "new", []tar.Header{dir, {Name: "./d/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "./d/p", Typeflag: tar.TypeFifo}, {Name: "./d/c", Typeflag: tar.TypeChar}}, []string{"new/"}, 3},
		"names are taken as they are":    {"d", "new", []tar.Header{{Name: "./d/-rf"}, {Name: "./d/a b\n"}}, []string{"new/", "new/-rf=of ./d/-rf", "new/a b\n=of ./d/a b\n"}, 0},
		"the root of the container":      {".", "new", []tar.Header{{Name: "./etc/x"}}, []string{"new/", "new/etc/", "new/etc/x=of ./etc/x"}, 0},
		"what is written through a link": {"d", "new", []tar.Header{dir, {Name: "./d/l", Typeflag: tar.TypeSymlink, Linkname: "../../../outside"}, {Name: "./d/l/x"}}, []string{"new/", "new/l/", "new/l/x=of ./d/l/x"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			here := filepath.Join(base, "here")
			if c.to == "old" {
				if err := errors.Join(os.MkdirAll(filepath.Join(here, "old"), 0o755), os.WriteFile(filepath.Join(here, "old/was"), []byte("here"), 0o644)); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Mkdir(here, 0o755); err != nil {
				t.Fatal(err)
			}
			var warnings []string
			err := Unpack(t.Context(), archive(t, c.entries...), c.top, filepath.Join(here, c.to), func(w string) { warnings = append(warnings, w) })
			if err != nil || len(warnings) != c.warnings {
				t.Errorf("%v, %q", err, warnings)
			}
			if got := tree(t, here); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if others := tree(t, base); len(others) != len(c.want)+1 {
				t.Errorf("beside it: %q", others)
			}
		})
	}
}

// TestUnpackHostile checks that no name or link in a container's stream leads out of the
// destination (CVE-2018-1002100, CVE-2019-1002101, CVE-2019-11246, CVE-2019-11249,
// CVE-2019-11251).
func TestUnpackHostile(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"..":                         {{Name: "./d/../../evil"}},
		".. first":                   {{Name: "../../evil"}},
		"absolute":                   {{Name: "/evil"}},
		"a name like the prefix":     {{Name: "./dd/evil"}},
		"through a link that exists": {{Name: "./d/out/evil"}},
		"a link that exists":         {{Name: "./d/file"}},
		"a hard link to above":       {{Name: "./d/x", Typeflag: tar.TypeLink, Linkname: "../../../secret"}},
		"a hard link, absolute":      {{Name: "./d/x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"a hard link by a link":      {{Name: "./d/x", Typeflag: tar.TypeLink, Linkname: "./d/out/secret"}},
		"onto a pipe":                {{Name: "./d/pipe"}},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			at := func(name string) string { return filepath.Join(base, name) }
			if err := errors.Join(os.MkdirAll(at("here/d"), 0o755), os.Mkdir(at("outside"), 0o755), os.WriteFile(at("outside/secret"), []byte("s"), 0o600),
				os.WriteFile(at("secret"), []byte("s"), 0o600), os.Symlink("../../../outside", at("here/d/out")), os.Symlink("../../../secret", at("here/d/file")), syscall.Mkfifo(at("here/d/pipe"), 0o600)); err != nil {
				t.Fatal(err)
			}
			before := tree(t, base)
			if err := Unpack(t.Context(), archive(t, entries...), "d", at("here/d"), func(string) {}); err == nil {
				t.Error("no error")
			}
			if after := tree(t, base); !slices.Equal(after, before) {
				t.Errorf("it is now %q", after)
			}
		})
	}
}

// TestUnpackCut checks that Unpack returns an error if the stream is truncated or ctx ends.
func TestUnpackCut(t *testing.T) {
	whole := archive(t, tar.Header{Name: "./f"}).Bytes()
	for _, n := range []int{0, 100, 512, 515} {
		err := Unpack(t.Context(), bytes.NewReader(whole[:n]), "f", filepath.Join(t.TempDir(), "f"), func(string) {})
		if err == nil {
			t.Errorf("%d bytes: no error", n)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := Unpack(ctx, bytes.NewReader(whole), "f", filepath.Join(t.TempDir(), "f"), func(string) {}); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}

func TestPack(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, "d", name) }
	if err := errors.Join(os.MkdirAll(at("e"), 0o755), os.WriteFile(at("a"), []byte("x"), 0o750), os.WriteFile(at("e/b"), nil, 0o644),
		os.Symlink("/etc", at("l")), syscall.Mkfifo(at("p"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var warnings []string
	if err := Pack(t.Context(), &out, filepath.Join(dir, "d"), "./new", func(w string) { warnings = append(warnings, w) }); err != nil {
		t.Fatal(err)
	}
	var got []string
	r := tar.NewReader(&out)
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		got = append(got, fmt.Sprintf("%c %s %o %d %s", e.Typeflag, e.Name, e.Mode, e.Size, e.Linkname))
	}
	want := []string{"5 new/ 755 0 ", "0 new/a 750 1 ", "5 new/e/ 755 0 ", "0 new/e/b 644 0 ", "2 new/l 777 0 /etc"}
	if !slices.Equal(got, want) || len(warnings) != 1 || !strings.Contains(warnings[0], "/d/p is skipped") {
		t.Errorf("%q\n%q", got, warnings)
	}
}
