package copytar

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// FuzzUnpack unpacks arbitrary bytes. Unpack must not write outside the destination. It must create
// only files and directories without special bits, and must not write more bytes than it received.
func FuzzUnpack(f *testing.F) {
	seed := func(entries ...tar.Header) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, e := range entries {
			if e.Typeflag == 0 {
				e.Typeflag, e.Size = tar.TypeReg, 3
			}
			if err := w.WriteHeader(&e); err != nil {
				f.Fatal(err)
			}
			if e.Size > 0 {
				if _, err := w.Write([]byte("abc")); err != nil {
					f.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		return out.Bytes()
	}
	f.Add(seed(tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "./d/a", Mode: 0o4755}, tar.Header{Name: "./d/l", Typeflag: tar.TypeLink, Linkname: "./d/a"}))
	f.Add(seed(tar.Header{Name: "./d/s", Typeflag: tar.TypeSymlink, Linkname: "../../../outside"}, tar.Header{Name: "./d/s/x", Mode: 0o644}, tar.Header{Name: "./d/../x", Mode: 0o644}))
	f.Add(seed(tar.Header{Name: "./d/old/x", Mode: 0o644}, tar.Header{Name: "./d/out/x", Mode: 0o644}, tar.Header{Name: "./d", Typeflag: tar.TypeLink, Linkname: "./d/secret"}))
	f.Add(seed(tar.Header{Name: "./d/p", Mode: 0o644, PAXRecords: map[string]string{"comment": "x"}}, tar.Header{Name: "./d/c", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}))
	for _, format := range []string{"0.0", "0.1", "1.0", "old"} {
		f.Add(sparse(f, format, 1<<40))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		at := func(name string) string { return filepath.Join(base, name) }
		for _, dir := range []string{"here/d/old", "outside"} {
			if err := os.MkdirAll(at(dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(at("outside/secret"), []byte("s"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../outside", at("here/d/out")); err != nil {
			t.Fatal(err)
		}
		// Most inputs are not archives.
		_ = Unpack(t.Context(), bytes.NewReader(data), "d", at("here/d"), func(string) {})
		checkUnpacked(t, base, len(data))
	})
}

// checkUnpacked checks a tree into which Unpack has written a stream with the given number of
// bytes.
func checkUnpacked(t *testing.T, base string, sent int) {
	written, seen := 0, map[uint64]bool{}
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		// These files were created before the call.
		case rel == "here/d/out" || rel == "outside/secret":
		case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 || !d.IsDir() && !info.Mode().IsRegular():
			t.Errorf("%s is %s", rel, info.Mode())
		case d.IsDir():
		case !strings.HasPrefix(rel, "here/d/"):
			t.Errorf("%s was written", rel)
		default:
			if ino := info.Sys().(*syscall.Stat_t).Ino; !seen[ino] {
				seen[ino], written = true, written+int(info.Size())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if written > sent {
		t.Errorf("%d bytes of %d", written, sent)
	}
	if secret, err := os.ReadFile(filepath.Join(base, "outside/secret")); err != nil || string(secret) != "s" {
		t.Errorf("the file outside is %q, %v", secret, err)
	}
}
