// Package source reads the manifest directories of podrun serve, as the kubelet reads its
// staticPodPath (pkg/kubelet/config/file.go), returns the pods that they define, and computes the
// changes.
//
// Reader.Read creates a Snapshot of all directories, Merge computes the Desired pods from
// it, and Diff compares two of these. Watch signals when to read again.
//
// A pod is never removed because something could not be read. A directory that cannot be
// read, and a file that is invalid or incomplete, keep the objects of their last valid
// content. If podrun has just started and that content is unknown, Snapshot.MayDefine reports
// whether a file could still define a pod.
package source

import (
	"strconv"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// Snapshot is the content of all directories at one point in time. It is never modified after it
// has been returned.
type Snapshot struct {
	Dirs []Dir // in the order of the options
	// News are the problems and recoveries to report, because the previous Snapshot did not have
	// them. Merge finds further problems.
	News problem.List
	// ReadAgain is the time after which the directories must be read again even if nothing
	// changes, because a file may be incomplete or will soon count as removed; 0 if no such
	// read is required.
	ReadAgain time.Duration
}

// DirState reports whether a directory could be read.
type DirState string

// The states of a directory.
const (
	Present DirState = "Present"
	// Unreachable is a directory that is missing, cannot be read, does not respond, exceeds
	// podrun's limits, or was replaced by an empty one, as an unmount does. Its last
	// content stays in effect.
	Unreachable DirState = "Unreachable"
)

// Dir is one directory.
type Dir struct {
	Path  string // absolute, or an https URL
	State DirState
	Why   string // why it is Unreachable, otherwise empty
	// Identity is the identity of the directory that was last read at this path; zero if none was.
	// After a restart, it is passed in Options.Identities.
	Identity Identity
	Files    []File   // sorted by name; for an Unreachable directory, the files that were read last
	Ignored  []string // printable names of ignored files, at most 100
	Exposed  []string // files to which users other than root can write, with these users; at most 10

	listed  bool      // this process has read it at least once
	arrived time.Time // when the directory with this identity became Present
	stale   bool      // for a URL: the server has not answered this process
	pending bool      // for a URL: not requested yet, and there is no copy
	young   bool      // arrived is less than the settle time ago, so an editor may be replacing a file
}

// Identity distinguishes a directory from another one at the same path.
type Identity struct {
	Device uint64 `json:"device,omitempty"` // may differ after a reboot
	Inode  uint64 `json:"inode"`
}

// FileState describes the newest content of a file.
type FileState string

// The states of a file.
const (
	Good FileState = "Good"
	// Incomplete is a file that is probably still being written: it is not reported, and
	// its previous content stays in effect.
	Incomplete FileState = "Incomplete"
	// Broken is a file whose settled content is invalid, or that cannot be read: its
	// previous content stays in effect.
	Broken FileState = "Broken"
	// Missing is a file that disappeared less than the settle time ago. Editors remove a
	// file for a moment; its content stays in effect for that time.
	Missing FileState = "Missing"
)

// File is one manifest file.
type File struct {
	Path  string // absolute; bytes that are not UTF-8 are replaced, as JSON does
	State FileState
	// Objects are in effect: those of the latest content if the state is Good, otherwise
	// those of the last valid content; nil if there was none.
	Objects *manifest.Objects
	// Problems are the problems of the last content that was not Incomplete. Errors in a Good file
	// refuse single objects (CronJob), not the file.
	Problems problem.List
	// Hash identifies that content: its SHA-256 in hex, or the reason why it cannot be read.
	Hash string

	name    string // as in the directory
	print   print
	failure string    // why the last pass could not read the file, otherwise empty
	since   time.Time // when the current print and failure, or the absence of the file, were first observed
	racy    bool      // print may remain the same although the content changes
	untimed bool      // print has the modification time of an earlier content
	settled FileState // the state of the content with that Hash: Good, Broken, or empty if there has been none
	inode   uint64    // of the content in effect
	bytes   int64     // of the content in effect
}

// print is a file's stat(2) data. While it is unchanged, the file is not read again.
type print struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // nanoseconds since 1970
}

// Problems returns all current problems of the directories and their files, whether
// reported or not.
func (s *Snapshot) Problems() problem.List {
	var out problem.List
	for i := range s.Dirs {
		d := &s.Dirs[i]
		if d.State == Unreachable {
			out = append(out, d.unreachable())
		}
		for j := range d.Files {
			out = append(out, d.Files[j].Problems...)
		}
		if len(d.Ignored) > 0 {
			out = append(out, d.ignored(d.Ignored))
		}
	}
	return out
}

// encodable returns a path as JSON encodes it, so that a recorded path equals the path that
// was read.
func encodable(path string) string { return string([]rune(path)) }

// kind returns the kind of a source for messages.
func (d *Dir) kind() string {
	if IsRemote(d.Path) {
		return "URL"
	}
	return "directory"
}

// printable returns a path that is safe to print on a terminal: quoted if it has control
// characters or bytes that are not UTF-8; for a URL, without user, query and fragment,
// which may be credentials.
func printable(path string) string {
	if IsRemote(path) {
		path = problem.ShownURL(path)
	}
	if quoted := strconv.Quote(path); strings.ContainsRune(quoted, '\\') {
		return quoted
	}
	return path
}

// Shown returns the name of a source, or of one of its files, for messages, without parts
// that may be credentials.
func Shown(name string) string { return printable(name) }
