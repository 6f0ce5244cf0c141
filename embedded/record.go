package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Choice is which runtime the pods of a root directory use.
type Choice struct {
	SchemaVersion int    `json:"schemaVersion"`
	Kind          Kind   `json:"kind"`
	Endpoint      string `json:"endpoint,omitempty"` // of an external runtime
	// Digest is the archive that was started last, of an embedded runtime: a podrun
	// without an archive uses what was unpacked of it.
	Digest string `json:"digest,omitempty"`
}

// ErrNewerChoice is that of a choice whose format this podrun does not know.
var ErrNewerChoice = errors.New("written by a newer podrun")

// encode writes the choice for its file.
func (c Choice) encode() ([]byte, error) {
	c.SchemaVersion = schema
	data, err := json.MarshalIndent(c, "", "  ")
	return append(data, '\n'), err
}

// parseChoice reads a choice. It is refused as a whole if anything of it is not
// understood: to guess the runtime could split the pods over two.
func parseChoice(data []byte) (Choice, error) {
	var c Choice
	if err := json.Unmarshal(data, &c); err != nil {
		return Choice{}, fmt.Errorf("not a record of the runtime: %w", err)
	}
	switch {
	case c.SchemaVersion > schema:
		return Choice{}, fmt.Errorf("%w (schema version %d)", ErrNewerChoice, c.SchemaVersion)
	case c.Kind != Own && c.Kind != External:
		return Choice{}, fmt.Errorf("unknown kind of runtime %q", c.Kind)
	case c.Kind == External && c.Endpoint == "":
		return Choice{}, errors.New("it names no endpoint")
	case c.Digest != "" && !IsDigest(c.Digest):
		return Choice{}, fmt.Errorf("%.80q is not a digest", c.Digest)
	}
	return c, nil
}

// IsDigest reports whether a name is the SHA-256 digest of an archive: 64 lower-case
// hex digits.
func IsDigest(name string) bool {
	return len(name) == maxName && strings.Trim(name, "0123456789abcdef") == ""
}

// Daemon is a containerd process that podrun started. A process with the same ID that
// started at another time, or before a reboot, is another one.
type Daemon struct {
	SchemaVersion int    `json:"schemaVersion"`
	PID           int    `json:"pid"`
	StartTime     uint64 `json:"startTime"` // field 22 of /proc/PID/stat, in clock ticks
	BootID        string `json:"bootID"`
	Digest        string `json:"digest"`
	Unit          string `json:"unit,omitempty"` // of systemd; empty for none
}

// parseDaemon reads a daemon's record; nil for one that says nothing.
func parseDaemon(data []byte) *Daemon {
	var d Daemon
	if err := json.Unmarshal(data, &d); err != nil || d.SchemaVersion > schema || d.PID <= 0 || !IsDigest(d.Digest) {
		return nil
	}
	return &d
}

// PickDigest chooses what to start: what ran before, after a crash and after a reboot, so
// that which of several podruns comes first changes no version; only an upgrade does. The
// binary's archive is for the first start, and where the files of the other are lost.
// Unpacked reports whether those of a digest are on this host and whole. The result is
// empty if there is nothing to start.
func PickDigest(last *Daemon, record *Choice, archive string, unpacked func(string) bool) string {
	var before []string
	if last != nil {
		before = append(before, last.Digest)
	}
	if record != nil && record.Kind == Own && record.Digest != "" {
		before = append(before, record.Digest)
	}
	for _, digest := range before {
		if digest == archive || unpacked(digest) {
			return digest
		}
	}
	return archive
}

// parseSums reads SHA256SUMS: digests by path. Paths are relative and clean.
func parseSums(data []byte) (map[string]string, error) {
	sums := map[string]string{}
	for line := range strings.Lines(string(data)) {
		sum, name, ok := strings.Cut(strings.TrimRight(line, "\n"), "  ")
		if !ok || !IsDigest(sum) || !cleanPath(name) {
			return nil, fmt.Errorf("invalid line %.100q", line)
		}
		sums[name] = sum
	}
	if len(sums) == 0 {
		return nil, errors.New("it lists no files")
	}
	return sums, nil
}

// cleanPath reports whether a name stays below the directory that it is relative to.
func cleanPath(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsAny(name, "\x00\\")
}
