package safepath

import (
	"strings"
	"testing"
)

// FuzzParseMounts checks that a mount is found exactly once and at its position, regardless of the
// other lines. Each line may result in at most one mount.
func FuzzParseMounts(f *testing.F) {
	const good = `41 40 0:31 / /pods/u rw - tmpfs tmpfs rw`
	for _, seed := range []string{
		"", "garbage", " - ", `44 22 0:34 / /pods/u/short\04 rw - tmpfs tmpfs rw`, `46 22 no / /x rw - tmpfs tmpfs rw`, `40 22 0:30 / /v\040one\134\011\012 rw,relatime shared:5 master:3 - tmpfs my\040fs rw,size=4k`,
		"43 22 0:33 / /pods/\u00a0\v\f\rx rw - tmpfs  rw", "\x00\n\r\n", `49 22 0:39 / /pods\000/u rw - tmpfs tmpfs rw`,
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + "\n" + good + "\n" + after
		all := parseMounts(text)
		if lines := strings.Count(text, "\n") + 1; len(all) > lines {
			t.Errorf("%d mounts of %d lines", len(all), lines)
		}
		found := 0
		for _, m := range all {
			if m.ID == 41 && m.Parent == 40 && m.Minor == 31 && m.Mountpoint == "/pods/u" && m.FSType == "tmpfs" {
				found++
			}
		}
		if found == 0 {
			t.Errorf("not found among %d mounts of %q", len(all), text)
		}
	})
}
