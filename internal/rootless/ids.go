package rootless

import (
	"slices"
	"strconv"
	"strings"
)

// IDRange is a range of user or group IDs of the host.
type IDRange struct {
	First int64 `json:"first"`
	Count int64 `json:"count"`
}

// SubordinateIDs returns the ranges of /etc/subuid or /etc/subgid (subuid(5)) that belong to a user: lines with the
// user's name or ID. It merges ranges that touch each other.
func SubordinateIDs(file, name string, uid int) []IDRange {
	var out []IDRange
	for line := range strings.Lines(file) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] == "" || f[0] != name && f[0] != strconv.Itoa(uid) {
			continue
		}
		first, err := strconv.ParseUint(f[1], 10, 32)
		count, cerr := strconv.ParseUint(f[2], 10, 32)
		if err == nil && cerr == nil && count > 0 {
			out = append(out, IDRange{int64(first), int64(count)})
		}
	}
	return merge(out)
}

// MappedIDs returns the subordinate ranges in an ID map of podrun-rootless (Record.UIDMap).
func MappedIDs(idMap string) []IDRange {
	var out []IDRange
	for line := range strings.Lines(idMap) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] == "0" { // the user
			continue
		}
		first, err := strconv.ParseInt(f[1], 10, 64)
		count, cerr := strconv.ParseInt(f[2], 10, 64)
		if err == nil && cerr == nil {
			out = append(out, IDRange{first, count})
		}
	}
	return merge(out)
}

// merge sorts ranges, and joins those that overlap or touch each other.
func merge(all []IDRange) []IDRange {
	slices.SortFunc(all, func(a, b IDRange) int { return int(a.First - b.First) })
	var out []IDRange
	for _, r := range all {
		if n := len(out); n > 0 && r.First <= out[n-1].First+out[n-1].Count {
			out[n-1].Count = max(out[n-1].Count, r.First+r.Count-out[n-1].First)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Without returns ranges without one ID, which podrun-rootless maps separately: that of the user.
func Without(all []IDRange, id int64) []IDRange {
	var out []IDRange
	for _, r := range all {
		if id < r.First || id >= r.First+r.Count {
			out = append(out, r)
			continue
		}
		if n := id - r.First; n > 0 {
			out = append(out, IDRange{r.First, n})
		}
		if n := r.First + r.Count - id - 1; n > 0 {
			out = append(out, IDRange{id + 1, n})
		}
	}
	return out
}

// ChangedIDs reports whether the ranges in a file differ from those in the namespaces of a living podrun-rootless.
func ChangedIDs(idMap string, have []IDRange, uid int) bool {
	return !slices.Equal(merge(MappedIDs(idMap)), merge(Without(have, int64(uid))))
}
