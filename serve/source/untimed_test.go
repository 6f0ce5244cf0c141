package source

import (
	"testing"
	"time"
)

// A busy kernel can show a truncated file with its new size and its old time for longer than
// one pass. The empty file must be incomplete in all of these passes, until it has settled.
func TestTruncatedFileWithItsOldTime(t *testing.T) {
	begun := time.Now()
	hourAgo := begun.Add(-time.Hour)
	was := File{name: "web.yaml", State: Good, settled: Good, Hash: "x", since: hourAgo, print: print{size: 10, modified: hourAgo.UnixNano()}}
	empty := observation{name: "web.yaml", print: print{modified: hourAgo.UnixNano()}}
	for _, pass := range []struct {
		after time.Duration
		want  FileState
	}{{0, Incomplete}, {10 * time.Millisecond, Incomplete}, {900 * time.Millisecond, Incomplete}, {1100 * time.Millisecond, Broken}} {
		r := rules{now: begun.Add(pass.after), settle: time.Second}
		was = r.file(t.TempDir(), &was, empty, &usage{})
		if was.State != pass.want {
			t.Errorf("after %s: %v, want %v", pass.after, was.State, pass.want)
		}
	}
}
