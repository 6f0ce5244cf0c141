// Package subid reads the ranges of subordinate IDs of an ordinary user. They are in /etc/subuid and /etc/subgid, or, if
// /etc/nsswitch.conf says so, in a name service such as SSSD, which only the program getsubids (shadow-utils) can query.
package subid

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/rootless"
)

// Kind is a kind of IDs.
type Kind string

// The kinds, which are the names of the files in /etc.
const (
	Users  Kind = "subuid"
	Groups Kind = "subgid"
)

// within limits the wait for a name service.
const within = 10 * time.Second

// Read returns the ranges of a user. A missing file has no ranges.
func Read(ctx context.Context, kind Kind, name string, uid int) ([]rootless.IDRange, error) {
	config, _ := os.ReadFile("/etc/nsswitch.conf") // without the file, there is no name service
	if service := service(string(config)); service != "" {
		return query(ctx, kind, name)
	}
	data, err := os.ReadFile("/etc/" + string(kind))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return rootless.SubordinateIDs(string(data), name, uid), nil
}

// service returns the source of subordinate IDs in /etc/nsswitch.conf (the line "subid: SOURCE"); "" for the files.
func service(config string) string {
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

// query executes getsubids. It fails for a user without ranges, as for other reasons.
func query(ctx context.Context, kind Kind, name string) ([]rootless.IDRange, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var args []string
	if kind == Groups {
		args = append(args, "-g")
	}
	out, err := exec.CommandContext(ctx, "getsubids", append(args, name)...).Output()
	if err != nil {
		return nil, err
	}
	return rootless.SubordinateIDs(fileOf(string(out)), name, -1), nil
}

// fileOf converts the output of getsubids, such as "0: ann 100000 65536", to the format of subuid(5).
func fileOf(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if f := strings.Fields(line); len(f) == 4 {
			b.WriteString(strings.Join(f[1:], ":") + "\n")
		}
	}
	return b.String()
}
