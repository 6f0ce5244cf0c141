package embedded

import (
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// versionField is the field of a file's schema version.
const versionField = "schemaVersion"

// at returns a Paths function for a file of the runtime.
func at(path func(Layout) string) func(identity.Layout) []string {
	return func(l identity.Layout) []string { return []string{path(ReadLayout(l.RootDir))} }
}

// choiceFile records the runtime of the pods. If podrun cannot use it, the pods use the runtime that has their
// sandboxes (run.Runtime).
var choiceFile = statefile.Declare(statefile.Kind[Choice]{
	What: "the record of the container runtime", Files: "runtime/choice.json", Scope: statefile.Host,
	On:     statefile.Answers{Absent: "no runtime was used yet", Corrupt: statefile.Rebuild, Unreadable: statefile.Rebuild, Newer: statefile.Rebuild},
	Paths:  at(Layout.Choice),
	Format: statefile.Field, Field: versionField, Newest: schema, Mode: 0o640,
	Decode: parseChoice, Encode: Choice.encode,
})

// daemonFile identifies containerd's process. If podrun cannot use it, podrun searches for the process.
var daemonFile = statefile.Declare(statefile.Kind[Daemon]{
	What: "the record of containerd's process", Files: "/run/podrun-runtime/<hash>/daemon.json", Scope: statefile.Host,
	On:     statefile.Answers{Absent: "podrun searches for the process", Corrupt: statefile.Rebuild, Unreadable: statefile.Rebuild, Newer: statefile.Rebuild},
	Paths:  at(Layout.Daemon),
	Format: statefile.Field, Field: versionField, Newest: schema, Mode: 0o600, Unsynced: true,
	Decode: func(data []byte) (d Daemon, err error) {
		err = json.Unmarshal(data, &d)
		if err == nil && (d.PID <= 0 || !IsDigest(d.Digest)) {
			err = errors.New("it does not identify a process")
		}
		return d, err
	},
	Encode: encodeLine[Daemon],
})

// endsFile records how the last starts of containerd ended.
var endsFile = statefile.Declare(statefile.Kind[Ends]{
	What: "the record of containerd's last starts", Files: "/run/podrun-runtime/<hash>/ends.json", Scope: statefile.Host,
	On:     statefile.Answers{Absent: "no start failed", Corrupt: statefile.Ignore, Unreadable: statefile.Ignore, Newer: statefile.Ignore},
	Paths:  at(Layout.Ends),
	Format: statefile.Field, Field: versionField, Newest: schema, Mode: 0o600, Unsynced: true,
	Encode: encodeLine[Ends],
})

// damagedStoreFile is the decision to replace a store, in the directory of the store. The file's existence is the
// decision.
var damagedStoreFile = statefile.Declare(statefile.Kind[DamagedStore]{
	What: "the decision to replace the runtime's store", Files: "runtime/containerd/" + damagedFile, Scope: statefile.Host,
	On:     statefile.Answers{Absent: "the store is not damaged", Corrupt: unknownDamage, Unreadable: statefile.Ignore, Newer: statefile.Partial},
	Paths:  at(func(l Layout) string { return filepath.Join(l.Containerd(), damagedFile) }),
	Format: statefile.Field, Field: versionField, Newest: schema, Mode: 0o640,
	Encode: encodeLine[DamagedStore],
})

// unknownDamage is the answer of damagedStoreFile.
const unknownDamage statefile.Action = "podrun replaces the store, for an unknown reason"

// encodeLine encodes a value as JSON that ends with a newline.
func encodeLine[T any](value T) ([]byte, error) {
	data, err := json.Marshal(value)
	return append(data, '\n'), err
}
