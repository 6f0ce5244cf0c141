package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// AcceptedContent is the record of the signed content that a supervisor took last from a source. podrun refuses
// content with a lower serial. The record remains when the source is removed, because the source may be added
// again.
type AcceptedContent struct {
	Source string `json:"source"` // without credentials
	Serial uint64 `json:"serial"`
	Sums   string `json:"sums"` // the SHA-256 of the signed list, in hex
}

// acceptedContents are the records of all sources. If a record is unreadable, podrun takes no content, because that
// may pass. If it is corrupt, podrun takes any signed content: otherwise, a device that no user can reach would never
// be updated again.
var acceptedContents = statefile.Declare(statefile.Kind[AcceptedContent]{
	What: "the serial of a source", Files: "serve/serials/<hash of the source>", Scope: statefile.Source,
	On:    statefile.Answers{Absent: "any signed content is new", Corrupt: statefile.Report, Unreadable: statefile.Refuse, Newer: statefile.Partial},
	Paths: acceptedFiles, Mode: 0o600, DirMode: 0o750,
	Decode: func(data []byte) (c AcceptedContent, err error) {
		if err = json.Unmarshal(data, &c); err == nil && (c.Serial == 0 || c.Sums == "") {
			err = errors.New("it has no serial")
		}
		return c, err
	},
})

func acceptedFiles(l identity.Layout) []string {
	paths, _ := hostfile.Entries(l.Serve().Serials(), "", "") // the directory exists only if sources are signed
	return slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path)[0] == '.' })
}

// AcceptedPath returns the path of the record of a source.
func AcceptedPath(layout identity.Layout, source string) string {
	sum := sha256.Sum256([]byte(source))
	return filepath.Join(layout.Serve().Serials(), hex.EncodeToString(sum[:16]))
}

// ReadAccepted reads the record of a source, which is zero if there is none. The fault is a warning.
func ReadAccepted(ctx context.Context, layout identity.Layout, source string) (AcceptedContent, *statefile.Fault, error) {
	return acceptedContents.Read(ctx, AcceptedPath(layout, source))
}

// WriteAccepted writes the record of a source and syncs it. It keeps the record of a newer podrun.
func WriteAccepted(layout identity.Layout, source string, c AcceptedContent) error {
	if err := acceptedContents.WriteDurable(AcceptedPath(layout, source), c); err != nil && !statefile.IsNewer(err) {
		return fmt.Errorf("record %s: %w", acceptedContents.What, err)
	}
	return nil
}
