package volume

import (
	"strconv"
	"strings"
)

// mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	ID     uint64
	Parent uint64
	Point  string // where it is mounted, unescaped
	FSType string
	Source string
	Shared bool // passes mounts on to its peers, and takes theirs
	Slave  bool // takes those of its master
}

// parseMountinfo reads mountinfo's text, leaving out lines it can't read.
func parseMountinfo(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, tail := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 6 || len(tail) < 2 {
			continue
		}
		id, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			continue
		}
		parent, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			continue
		}
		m := mount{ID: id, Parent: parent, Point: unescape(fields[4]), FSType: tail[0], Source: unescape(tail[1])}
		for _, tag := range fields[6:] {
			m.Shared = m.Shared || strings.HasPrefix(tag, "shared:")
			m.Slave = m.Slave || strings.HasPrefix(tag, "master:")
		}
		out = append(out, m)
	}
	return out
}

// unescape undoes the kernel's \ooo for space, tab, newline and backslash.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// below keeps the mounts at dir or anywhere under it, in the order given.
func below(mounts []mount, dir string) []mount {
	var out []mount
	for _, m := range mounts {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			out = append(out, m)
		}
	}
	return out
}
