package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// The kernel accepts 340 ranges in an ID map (user_namespaces(7)), and up to one page of text.
const (
	maxRanges  = 340
	maxMapText = 4095
)

// idRange is a line of an ID map: count IDs from inside in U are those from outside of the host.
type idRange struct{ inside, outside, count uint32 }

// ranges returns the ranges of /etc/subuid or /etc/subgid (subuid(5)) that belong to a user: lines
// with the name or with the number of the user. It omits lines that newuidmap would refuse: those
// that are malformed, empty, or not below the largest ID.
func ranges(file, name string, uid int) []idRange {
	var out []idRange
	for line := range strings.Lines(file) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] == "" || fields[0] != name && fields[0] != strconv.Itoa(uid) {
			continue
		}
		first, err := strconv.ParseUint(fields[1], 10, 32)
		if err != nil {
			continue
		}
		count, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil || count == 0 || first+count > math.MaxUint32 {
			continue
		}
		out = append(out, idRange{outside: uint32(first), count: uint32(count)})
	}
	return out
}

// nameService returns the source of subordinate IDs in /etc/nsswitch.conf (the line "subid: SOURCE"); "" for the files.
func nameService(config string) string {
	for line := range strings.Lines(config) {
		line, _, _ = strings.Cut(line, "#")
		if sources, ok := strings.CutPrefix(strings.TrimSpace(line), "subid:"); ok {
			if f := strings.Fields(sources); len(f) > 0 && f[0] != "files" {
				return f[0]
			}
		}
	}
	return ""
}

// rangeLines converts the output of getsubids, such as "0: ann 100000 65536", to the format of the files.
func rangeLines(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if f := strings.Fields(line); len(f) == 4 {
			b.WriteString(strings.Join(f[1:], ":") + "\n")
		}
	}
	return b.String()
}

// idMap returns the map of U: 0 is the user, and from 1 the subordinate ranges follow. A part of a
// range that an earlier line, or the user, has already is omitted, because the kernel refuses maps
// with overlaps. own is the user's ID.
func idMap(own int, subordinate []idRange) []idRange {
	out := []idRange{{inside: 0, outside: uint32(own), count: 1}}
	next := uint32(1)
	for _, r := range subordinate {
		for _, part := range without(r, out) {
			part.inside, part.count = next, min(part.count, math.MaxUint32-next)
			if part.count == 0 || len(out) == maxRanges || len(mapText(append(out, part))) > maxMapText {
				return out
			}
			out, next = append(out, part), next+part.count
		}
	}
	return out
}

// without returns the parts of a range that no range of taken contains.
func without(r idRange, taken []idRange) []idRange {
	parts := []idRange{r}
	for _, t := range taken {
		var rest []idRange
		for _, p := range parts {
			end, takenEnd := p.outside+p.count, t.outside+t.count
			if takenEnd <= p.outside || end <= t.outside {
				rest = append(rest, p)
				continue
			}
			if p.outside < t.outside {
				rest = append(rest, idRange{outside: p.outside, count: t.outside - p.outside})
			}
			if takenEnd < end {
				rest = append(rest, idRange{outside: takenEnd, count: end - takenEnd})
			}
		}
		parts = rest
	}
	return parts
}

// mapText returns a map as /proc/PID/uid_map shows it, with single spaces.
func mapText(all []idRange) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "%d %d %d\n", r.inside, r.outside, r.count)
	}
	return b.String()
}

// mapArguments returns a map as arguments of newuidmap and newgidmap.
func mapArguments(all []idRange) []string {
	return strings.Fields(mapText(all))
}

// readMap returns an ID map of a process in the format of mapText.
func readMap(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String(), nil
}

// nameOf returns the name of a user in /etc/passwd, or "".
func nameOf(passwd string, uid int) string {
	for line := range strings.Lines(passwd) {
		if fields := strings.Split(line, ":"); len(fields) > 2 && fields[2] == strconv.Itoa(uid) {
			return fields[0]
		}
	}
	return ""
}
