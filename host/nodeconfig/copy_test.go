package nodeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCopiesAreBounded stores the copies of many settings files. The newest ones remain, and that of the default file,
// whatever its age.
func TestCopiesAreBounded(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	if err := os.WriteFile(CopyOf(dir, ConfigFile()).Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var copies []Copy
	for i := range 2*maxCopies + 1 {
		file := filepath.Join(files, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte("a: b\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := CopyOf(dir, file)
		if err := c.Keep(t.Context(), []byte("a: b\n")); err != nil {
			t.Fatal(err)
		}
		// Each is newer than the one before, and than the default file's.
		if err := os.Chtimes(c.Path, time.Time{}, time.Now().Add(time.Duration(i-1000)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, c)
	}
	if err := os.Chtimes(CopyOf(dir, ConfigFile()).Path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	last := copies[0] // its copy was removed: it is the oldest one again
	if err := last.Keep(t.Context(), []byte("a: b\n")); err != nil {
		t.Fatal(err)
	}
	for i, c := range copies {
		_, err := os.Stat(c.Path)
		if want := i == 0 || i > len(copies)-maxCopies; (err == nil) != want {
			t.Errorf("the copy of file %d exists: %t, want %t", i, err == nil, want)
		}
	}
	if _, err := os.Stat(CopyOf(dir, ConfigFile()).Path); err != nil {
		t.Error(err)
	}
}
