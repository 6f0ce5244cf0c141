// Package source reads the manifest directories of podrun serve, as the kubelet reads its
// staticPodPath (pkg/kubelet/config/file.go), into the pods that they define, and
// computes the changes.
//
// Reader.Read creates a Snapshot of all directories, Merge computes the Desired pods from
// it, and Diff compares two of these. Watch signals when to read again.
//
// A pod is never removed because something could not be read. A directory that cannot be
// read, and a file that is invalid or incomplete, keep the objects of their last valid
// content. After a start of podrun, when this content is unknown, Snapshot.MayHaveHeld
// reports whether a pod could still be in a file.
package source

import (
	"strconv"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// Snapshot is what all directories hold at one time. It is not changed once it
// was returned.
type Snapshot struct {
	Dirs []Dir // in the order of the options
	// News are the problems and recoveries that the previous Snapshot did not have
	// yet: what to report now. Merge finds more.
	News problem.List
	// ReadAgain is how long after this pass the directories have to be read again
	// even if nothing changes, because a file may be only partly written or is
	// about to count as removed; 0 is not at all.
	ReadAgain time.Duration
}

// DirState reports whether a directory could be read.
type DirState string

// The states of a directory.
const (
	Present DirState = "Present"
	// Unreachable is a directory that is missing, cannot be read, does not answer,
	// holds more than podrun reads, or was replaced by an empty one, as an unmount
	// does. What it held last stays in force.
	Unreachable DirState = "Unreachable"
)

// Dir is one directory.
type Dir struct {
	Path  string // absolute, or an https URL
	State DirState
	Why   string // why it is Unreachable, else empty
	// Identity is that of the directory which was read last; zero when none was.
	// Options.Identities takes it after a restart.
	Identity Identity
	Files    []File   // by name; of an Unreachable directory those that were read last
	Ignored  []string // printable names of ignored files, at most 100
	Exposed  []string // what users other than root can write to, and which users; at most 10

	listed  bool      // it was read once by this process
	arrived time.Time // when the directory with this identity became Present
	stale   bool      // of a URL: the server has not answered this process
	pending bool      // of a URL: it was not asked yet, and there is no copy
	young   bool      // that was less than the settle time ago: an editor may be replacing a file
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
	// Objects are in force: of the newest content if the state is Good, else of
	// the last good one; nil when there was none.
	Objects *manifest.Objects
	// Problems are those of the last content that was not Incomplete. Errors in
	// the list of a Good file refuse single objects (CronJob).
	Problems problem.List
	// Hash identifies that content: hex SHA-256, or why it cannot be read.
	Hash string

	name    string // as the directory has it
	print   print
	failure string    // why the last pass could not read the file, else empty
	since   time.Time // when print and failure, or that the file is missing, were first seen
	racy    bool      // print may stay the same although the content changes
	untimed bool      // print has the modification time of the content before
	settled FileState // Good, Broken, or empty when there was none yet: the state of Hash
	inode   uint64    // of the content that is in force
	bytes   int64     // of the content that is in force
}

// print is a file's stat(2) data. As long as it is unchanged, the file is not read again.
type print struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // nanoseconds since 1970
}

// Problems lists everything that is wrong with the directories and their files
// now, reported or not.
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

// encodable is a path as JSON keeps it, so that a recorded path equals the one
// that was read.
func encodable(path string) string { return string([]rune(path)) }

// kind is the kind of a source in messages.
func (d *Dir) kind() string {
	if IsRemote(d.Path) {
		return "URL"
	}
	return "directory"
}

// printable is a path that is safe on a terminal: quoted if it has control
// characters or bytes that are not UTF-8, and a URL without user, query and fragment,
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

// Shown is the name of a source, or of a file of one, in messages, without parts that may
// be credentials.
func Shown(name string) string { return printable(name) }
