package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// A user who can write a manifest can start a privileged pod. podrun refuses files that every
// user can write to, and keeps their pods. If another user or group can write a file, podrun
// must print a warning. If sources are strict, podrun must refuse the file.
func TestReadWritableByOthers(t *testing.T) {
	ring.RequireRoot(t)
	for name, c := range map[string]struct {
		strict       bool
		dir, file    os.FileMode
		uid, gid     int
		want, reason string // the pods, and a substring of the news
	}{
		"root's":                    {false, 0o755, 0o644, 0, 0, "web=", ""},
		"root's group":              {true, 0o775, 0o664, 0, 0, "web=", ""},
		"a group that only reads":   {true, 0o755, 0o644, 0, 1234, "web=", ""},
		"file of every user":        {false, 0o755, 0o666, 0, 0, "", "every user can write"},
		"directory of every user":   {false, 0o777, 0o644, 0, 0, "", "every user can write"},
		"sticky directory":          {false, 0o777 | os.ModeSticky, 0o644, 0, 0, "", "every user can write"},
		"another owner":             {false, 0o755, 0o644, 1234, 0, "web=", "the directory: user 1234 owns it; web.yaml: user 1234 owns it"},
		"another group":             {false, 0o775, 0o664, 0, 1234, "web=", "the directory: group 1234 can write to it; web.yaml: group 1234"},
		"another owner and group":   {false, 0o755, 0o664, 1234, 1234, "web=", "web.yaml: user 1234 and group 1234"},
		"strict with another owner": {true, 0o755, 0o644, 1234, 0, "", "refused by strictSources, because user 1234 owns it"},
		"strict with another group": {true, 0o755, 0o664, 0, 1234, "", "refused by strictSources, because group 1234"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "web.yaml")
			write(t, file, podText("web"))
			do(t, os.Chown(file, c.uid, c.gid), os.Chmod(file, c.file), os.Chown(dir, c.uid, c.gid), os.Chmod(dir, c.dir))
			r := readerOf(t, Options{Dirs: []string{dir}, Strict: c.strict})
			s, text := settled(t, r)
			if got := pods(s); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("pods %q, want %q", got, c.want)
			}
			if !strings.Contains(text, c.reason) || c.reason == "" && text != "" {
				t.Errorf("reported %q, want %q", text, c.reason)
			}
			if again := read(t, r); len(again.News) > 0 {
				t.Errorf("reported again: %v", again.News)
			}
		})
	}
}

// If a file or a directory becomes writable by every user, podrun keeps its pods until the mode
// is corrected.
func TestReadBecomesWritableByOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "web.yaml")
	write(t, file, podText("web"))
	r := reader(t, dir)
	settled(t, r)
	for path, mode := range map[string]os.FileMode{file: 0o644, dir: 0o755} {
		do(t, os.Chmod(path, mode|0o022))
		write(t, filepath.Join(dir, "db.yaml"), podText("db"))
		if s, _ := settled(t, r); !strings.Contains(pods(s), "web") {
			t.Errorf("%s became writable: %q", path, pods(s))
		}
		do(t, os.Chmod(path, mode))
		if s, _ := settled(t, r); strings.Count(pods(s), "=") != 2 {
			t.Errorf("the mode of %s was corrected: %q", path, pods(s))
		}
		do(t, os.Remove(filepath.Join(dir, "db.yaml")))
		settled(t, r)
	}
}
