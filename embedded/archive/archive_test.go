package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
)

// small is an archive with one file. It is not compressed.
func small(t *testing.T, content string) Archive {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range [][2]string{{Sums, "sums"}, {Licenses, content}} {
		if err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(packed.Bytes())
	sum := fmt.Sprintf("%s %d\n", hex.EncodeToString(digest[:]), packed.Len())
	a, ok := parse(packed.String(), sum, func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil })
	if !ok {
		t.Fatalf("%q is not a checksum", sum)
	}
	return a
}

func TestArchive(t *testing.T) {
	a := small(t, "all of them")
	if a.Size != a.Unpacked || a.Size == 0 {
		t.Errorf("%d bytes, %d unpacked", a.Size, a.Unpacked)
	}
	if err := a.Verify(); err != nil {
		t.Error(err)
	}
	// Each call returns a new reader.
	for range 2 {
		packed, err := io.ReadAll(a.Reader())
		if sum := sha256.Sum256(packed); err != nil || hex.EncodeToString(sum[:]) != a.Digest {
			t.Errorf("%d bytes of another digest, %v", len(packed), err)
		}
		if text, err := a.File(Licenses, 100); err != nil || string(text) != "all of them" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

func TestArchiveErrors(t *testing.T) {
	a := small(t, "all of them")
	damaged := a
	damaged.data = strings.Replace(a.data, "all of", "none of", 1)
	short := a
	short.data = a.data[:1100]
	for _, test := range []struct {
		name, want string
		err        func() error
	}{
		{"damaged", "is damaged", damaged.Verify},
		{"no such file", "has no file " + SBOM, func() error { _, err := a.File(SBOM, 100); return err }},
		{"too large", "11 bytes, more than 10", func() error { _, err := a.File(Licenses, 10); return err }},
		{"cut short", "unexpected EOF", func() error { _, err := short.File(Licenses, 100); return err }},
		{"no decoder", "use podrun-bundle", func() error { _, err := Archive{}.File(Licenses, 100); return err }},
	} {
		if err := test.err(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	for _, sum := range []string{"", "abc 12", strings.Repeat("a", 64), strings.Repeat("a", 64) + " many"} {
		if _, ok := parse("", sum, nil); ok {
			t.Errorf("%q was accepted as a checksum", sum)
		}
	}
}

// TestOpen checks the result of Open, in an ordinary build and in a build with the tag. In the
// latter, it verifies the digest and finds the files.
func TestOpen(t *testing.T) {
	a, ok := Open()
	if !ok {
		if _, err := a.Tar(); err == nil {
			t.Error("an archive that does not exist was opened")
		}
		return
	}
	if err := a.Verify(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{Sums, Versions, Licenses, SBOM, Pause} {
		if text, err := a.File(name, 16<<20); err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}
