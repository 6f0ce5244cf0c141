// Package source reads the manifest directories of podrun serve, as the kubelet reads its
// staticPodPath (pkg/kubelet/config/file.go). It returns the pods that the directories define,
// and computes the changes.
//
// Reader.Read creates a Snapshot of all directories, Merge computes the Desired pods from
// it, and Diff compares two of these. Watch signals when to read again.
//
// podrun never removes a pod because something could not be read. If a directory cannot be read,
// or if a file is invalid or incomplete, the objects of its last valid content remain in effect.
// If podrun has just started, it does not know that content: Snapshot.MayDefine then reports
// whether a file could still define a pod.
package source

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// Snapshot is the content of all directories at one point in time. No function modifies it after
// it has been returned.
type Snapshot struct {
	Dirs []Dir // in the order of the options
	// News are the problems and recoveries that must be reported, because the previous Snapshot
	// did not have them. Merge finds further problems.
	News problem.List
	// ReadAgain is the time after which the directories must be read again even if nothing
	// changes, because a file may be incomplete or will soon count as removed. It is 0 if that is
	// not necessary.
	ReadAgain time.Duration
	// Records is the directory with the records of Jobs, which also define pods. Unreadable are the
	// records that podrun cannot read, with the reasons.
	Records    string
	Unreadable map[string]error
	// Undecided are the paths of files with a Job that has no record yet. The Job may keep a pod that an older
	// podrun started from the file.
	Undecided map[string]bool
	// API is the state of an API server; nil if this host is not a node of a cluster.
	API *APIServer
}

// DirState reports whether a directory could be read.
type DirState string

// The states of a directory.
const (
	Present DirState = "Present"
	// Unreachable is a directory that is missing, cannot be read, does not respond or exceeds
	// podrun's limits. It is also a directory that was replaced by an empty one, as an unmount
	// does. The last content of the directory remains in effect.
	Unreachable DirState = "Unreachable"
	// Unverified is a directory whose content podrun does not take, because its signature is missing or
	// does not allow it (Verification). The last content of the directory remains in effect.
	Unverified DirState = "Unverified"
)

// Dir is one directory.
type Dir struct {
	Path  string // absolute, or an https URL
	State DirState
	// why the directory is not Present; otherwise empty
	Why string
	// Identity is the identity of the directory that podrun last read at this path; zero if it
	// read none. After a restart, the caller passes it in Options.Identities.
	Identity Identity
	// sorted by name; if the directory is Unreachable, these are the files that were read last
	Files   []File
	Ignored []string // printable names of ignored files, at most 100
	Exposed []string // files to which users other than root can write, with these users; at most 10
	// Unsigned are the printable names of manifests that podrun does not read, because the signed list of a
	// Verification lacks them; at most 100
	Unsigned []string

	// this process has read the directory at least once
	listed  bool
	arrived time.Time // when the directory with this identity became Present
	stale   bool      // for a URL: the server has not answered this process
	pending bool      // for a URL: not requested yet, and there is no copy
	// arrived is more recent than the settle time, so an editor may be replacing a file
	young bool
}

// Identity distinguishes a directory from another one at the same path.
type Identity struct {
	Device uint64 `json:"device,omitempty"` // may differ after a reboot
	Inode  uint64 `json:"inode"`
}

// unknownIdentity differs from the identity of every directory.
var unknownIdentity = Identity{Device: math.MaxUint64, Inode: math.MaxUint64}

// FileState describes the newest content of a file.
type FileState string

// The states of a file.
const (
	Good FileState = "Good"
	// Incomplete is a file to which a process is probably still writing. It is not reported, and
	// its previous content remains in effect.
	Incomplete FileState = "Incomplete"
	// Broken is a file that cannot be read, or whose content is invalid and has settled. Its
	// previous content remains in effect.
	Broken FileState = "Broken"
	// Missing is a file that disappeared less than the settle time ago. Editors remove a file for
	// a moment, so its content remains in effect during that time.
	Missing FileState = "Missing"
)

// File is one manifest file.
type File struct {
	// absolute; bytes that are not UTF-8 are replaced as in JSON
	Path  string
	State FileState
	// Objects are the objects in effect: those of the latest content if the state is Good,
	// otherwise those of the last valid content. Objects is nil if there was none.
	Objects *manifest.Objects
	// Problems are the problems of the last content that was not Incomplete. In a Good file,
	// errors refuse single objects, such as a CronJob, and not the file.
	Problems problem.List
	// Hash identifies that content: it is the SHA-256 in hex, or the reason why the content cannot
	// be read.
	Hash string

	name  string // the name in the directory
	print print
	// why the last pass could not read the file; otherwise empty
	failure string
	// when podrun first observed the current print and failure, or the absence of the file
	since   time.Time
	racy    bool // print may remain the same although the content changes
	untimed bool // print has the modification time of an earlier content
	// the state of the content with that Hash: Good or Broken, or empty if there has been no content
	settled FileState
	inode   uint64 // the inode of the file when its content in effect was read
	bytes   int64  // the size of the content in effect
}

// print is a file's stat(2) data. While it is unchanged, podrun does not read the file again.
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
		if d.State != Present {
			out = append(out, d.unreachable())
		}
		for j := range d.Files {
			out = append(out, d.Files[j].Problems...)
		}
		if len(d.Ignored) > 0 {
			out = append(out, d.ignored(d.Ignored))
		}
		if len(d.Unsigned) > 0 {
			out = append(out, d.unsigned())
		}
	}
	return out
}

// encodable returns a path in the form in which JSON encodes it. Therefore, a path that podrun has
// recorded as JSON equals the path that it finds in the directory, even if the path is not valid UTF-8.
func encodable(path string) string { return string([]rune(path)) }

// kind returns the kind of a source for messages.
func (d *Dir) kind() string {
	if IsArtifact(d.Path) {
		return "artifact"
	}
	if IsRemote(d.Path) {
		return "URL"
	}
	return "directory"
}

// printable returns a path in a form that is safe to print on a terminal. It quotes control
// characters and bytes that are not UTF-8. From a URL, it removes the user, the query and the
// fragment, which may be credentials.
func printable(path string) string {
	if IsRemote(path) {
		path = problem.ShownURL(path)
	}
	if quoted := strconv.Quote(path); strings.ContainsRune(quoted, '\\') {
		return quoted
	}
	return path
}

// Shown returns the name of a source, or of one of its files, for messages. It omits parts that
// may be credentials.
func Shown(name string) string { return printable(name) }
