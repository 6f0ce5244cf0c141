// Package statefile reads and writes podrun's state files. Each kind of file is declared once, as a
// Kind, with the format of its content and with what podrun does if a file cannot be used. A read
// has one of five results: the file is intact, absent, corrupt, unreadable, or was written by a
// newer podrun.
//
// Every read accepts only a regular file and is bounded. Every write is atomic, and never replaces a
// file of a newer podrun, so that nothing is lost if an older podrun is used for a while.
package statefile

import (
	"encoding/json"
	"io/fs"

	"github.com/podrun/podrun/internal/identity"
)

// State is the result of reading a state file.
type State string

// The states of a file. Each of the last four requires an answer of the caller (Answers).
const (
	Intact State = "intact"
	Absent State = "absent"
	// Corrupt means that the content is lost: it is not what podrun writes, or the path is not a
	// regular file.
	Corrupt State = "corrupt"
	// Unreadable means that the system returned an error, such as EIO or EACCES. The content may be
	// intact.
	Unreadable State = "unreadable"
	// Newer means that a newer podrun wrote the file.
	Newer State = "newer"
)

// Action is what podrun does if a file is not intact.
type Action string

// The actions. All of them but Refuse let the operation continue.
const (
	// Ignore treats the file as absent.
	Ignore Action = "counts as absent"
	// Report treats the file as absent, and prints a warning.
	Report Action = "counts as absent, with a warning"
	// Rebuild derives the content from other data, with a warning.
	Rebuild Action = "is derived again, with a warning"
	// Partial uses the parts that can be decoded.
	Partial Action = "podrun uses what it can decode"
	// Refuse makes the operations on the object fail that the file belongs to.
	Refuse Action = "operations on it fail"
)

// Answers states what podrun does in each case. Absent describes what the absence of the file means.
type Answers struct {
	Absent                     string
	Corrupt, Unreadable, Newer Action
}

// Scope is the object that a file of a kind belongs to. A file that cannot be used affects only
// this object.
type Scope string

// The scopes. Host means that all pods of the root directory share the file. So no operation may
// fail because of it.
const (
	Host     Scope = "host"
	OfPod    Scope = "pod"
	Service  Scope = "Service"
	Workload Scope = "workload"
	Job      Scope = "Job"
	CronJob  Scope = "CronJob"
	Image    Scope = "image"
	URL      Scope = "URL"
	Source   Scope = "source"
)

// Format states where the schema version of a file is.
type Format int

// The formats.
const (
	// Line is a version in a first line (identity.CutSchema).
	Line Format = iota
	// Field is a version in a field of a JSON object (Kind.Field).
	Field
	// Unversioned files have a format that does not change, such as one of the kubelet.
	Unversioned
)

// Kind describes the state files with one kind of content.
type Kind[T any] struct {
	// What names the content in messages, such as "the names of Services".
	What string
	// Files is the path below the root directory, for the documentation. Parts that vary are in angle
	// brackets.
	Files string
	Scope Scope
	On    Answers
	// Paths lists the paths at which a layout has, or may have, such files; Scan examines them.
	Paths func(identity.Layout) []string

	Format Format
	Field  string // name of the version's field; for the format Field
	// Newest is the newest version that this podrun can read; 0 for identity.Schema. Version is the
	// version that it writes; 0 for 1. It is used only with the format Line.
	Newest, Version int

	Limit int64 // maximum size in bytes, with the version
	// Decode decodes the content, without a version line; nil for JSON. It returns what it could
	// decode even if it also returns an error.
	Decode func([]byte) (T, error)
	// Encode is the inverse of Decode; nil for JSON.
	Encode func(T) ([]byte, error)

	Mode fs.FileMode // of a file that Write creates
	// DirMode is the mode of the file's directory, which Write creates; 0 if the directory must exist.
	DirMode fs.FileMode
	// Unsynced makes Write leave the file to the system. An empty file is then a result of a power
	// failure, and counts as absent.
	Unsynced bool
}

const defaultLimit = 1 << 20

func (k *Kind[T]) limit() int64 {
	if k.Limit == 0 {
		return defaultLimit
	}
	return k.Limit
}

func (k *Kind[T]) newest() int {
	if k.Newest == 0 {
		return identity.Schema
	}
	return k.Newest
}

func (k *Kind[T]) decode(content []byte) (value T, err error) {
	if k.Decode != nil {
		return k.Decode(content)
	}
	err = json.Unmarshal(content, &value)
	return value, err
}

// action returns what podrun does if a file has this state.
func (k *Kind[T]) action(s State) Action {
	switch s {
	case Corrupt:
		return k.On.Corrupt
	case Unreadable:
		return k.On.Unreadable
	case Newer:
		return k.On.Newer
	}
	return Ignore
}
