package hostfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestEntries lists directories whose names are patterns beside a directory that these patterns match.
func TestEntries(t *testing.T) {
	parent := t.TempDir()
	for _, dir := range []string{"ca", "c[ab]", "c[a", "c*", `c\a`, "c\na"} {
		if err := os.Mkdir(filepath.Join(parent, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b.log", "a.log", "a.txt", ".log", "[.log"} {
			if err := os.WriteFile(filepath.Join(parent, dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			prefix, suffix string
			want           []string
		}{
			{"", "", []string{".log", "[.log", "a.log", "a.txt", "b.log"}},
			{"", ".log", []string{".log", "[.log", "a.log", "b.log"}},
			{"a", "", []string{"a.log", "a.txt"}},
			{"[", ".log", []string{"[.log"}},
			// The prefix and the suffix do not overlap.
			{".log", ".log", nil},
		} {
			got, err := Entries(filepath.Join(parent, dir), tt.prefix, tt.suffix)
			for i := range got {
				got[i], _ = filepath.Rel(filepath.Join(parent, dir), got[i])
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%q, prefix %q, suffix %q: %q, %v, want %q", dir, tt.prefix, tt.suffix, got, err, tt.want)
			}
		}
	}
	for _, missing := range []string{"none", "ca/a.log", "ca/a.log/x"} {
		if got, err := Entries(filepath.Join(parent, missing), "", ""); err != nil || len(got) > 0 {
			t.Errorf("%s: %q, %v", missing, got, err)
		}
	}
}
