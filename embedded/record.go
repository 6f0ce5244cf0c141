package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Choice records which runtime the pods of a root directory use.
type Choice struct {
	SchemaVersion int    `json:"schemaVersion"`
	Kind          Kind   `json:"kind"`
	Endpoint      string `json:"endpoint,omitempty"` // endpoint of an external runtime
	// Digest is the archive of the embedded runtime that was started last. A podrun without an
	// archive uses its unpacked files.
	Digest string `json:"digest,omitempty"`
}

// encode returns the content of the choice's file.
func (c Choice) encode() ([]byte, error) {
	c.SchemaVersion = schema
	data, err := json.MarshalIndent(c, "", "  ")
	return append(data, '\n'), err
}

// parseChoice parses a choice. If it does not understand a part, it rejects the whole choice,
// because after a wrong guess, the pods could use two different runtimes.
func parseChoice(data []byte) (Choice, error) {
	var c Choice
	if err := json.Unmarshal(data, &c); err != nil {
		return Choice{}, fmt.Errorf("not a record of the runtime: %w", err)
	}
	switch {
	case c.Kind != Own && c.Kind != External:
		return Choice{}, fmt.Errorf("unknown kind of runtime %q", c.Kind)
	case c.Kind == External && c.Endpoint == "":
		return Choice{}, errors.New("it does not name an endpoint")
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

// Daemon identifies a containerd process that podrun started. If the PID is the same but the
// start time or the boot ID differs, it is another process.
type Daemon struct {
	SchemaVersion int    `json:"schemaVersion"`
	PID           int    `json:"pid"`
	StartTime     uint64 `json:"startTime"` // field 22 of /proc/PID/stat, in clock ticks
	BootID        string `json:"bootID"`
	Digest        string `json:"digest"`
	Unit          string `json:"unit,omitempty"` // systemd unit; empty if there is none
	// LogFrom is the size of the log, in bytes, before the process wrote to it; nil if an older podrun
	// started the process.
	LogFrom *int64 `json:"logFrom,omitempty"`
	// Starting is set until podrun has prepared the daemon for use (Daemon.Ready). A podrun process that
	// ends before leaves the rest of the preparation to the next one.
	Starting bool `json:"starting,omitempty"`

	found bool // the process was found without its record
}

// PickDigest returns the digest of the archive to start. This is the archive that ran before,
// even after a crash or a reboot, so that the version does not depend on which of several
// podrun processes runs first. Only an upgrade changes it. PickDigest returns the archive of
// the binary in two cases: for the first start, and if the files of the archive that ran before
// are lost. unpacked reports whether the files of a digest are complete on this host.
// PickDigest returns "" if there is nothing to start.
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

// parseSums parses SHA256SUMS, and returns the digests by path. Paths are relative and clean.
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
		return nil, errors.New("it does not list files")
	}
	return sums, nil
}

// cleanPath reports whether a relative name does not lead out of its directory.
func cleanPath(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsAny(name, "\x00\\")
}
