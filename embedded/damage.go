package embedded

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Damage means that containerd cannot use its store because the content of the store is
// damaged, and not because of the environment, such as a full disk.
type Damage struct {
	What string // one line, for example the message of a panic
}

func (d Damage) Error() string { return "its store is damaged: " + d.What }

// damaged are the errors with which bbolt (errors/errors.go, db.go and db_unix.go of v1.5) and
// containerd's metadata report the content of a database.
var damaged = []string{"invalid database", "checksum error", "file size too small", "database isn't correctly mapped", "invalid freelist page", "unexpected EOF"}

// environment are the errors that a damaged store does not cause. An error that contains one of
// them is never considered damage, even if it also contains one of the texts above.
var environment = []string{"input/output error", "no space left on device", "disk quota exceeded", "read-only file system", "permission denied", "operation not permitted",
	"too many open files", "cannot allocate memory", "out of memory", "structure needs cleaning", "bad message", "no such device", "remote I/O error", "stale file handle", "resource temporarily unavailable", "timeout"}

// stackOfBolt matches a frame of bbolt in a goroutine's stack.
var stackOfBolt = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^go\.etcd\.io/bbolt[./]`) })

// maxWhat limits the length of Damage.What in bytes.
const maxWhat = 300

// classifyText returns the damage that an error message reports; nil if it reports another
// problem. It is pure.
func classifyText(text string) *Damage {
	if containsAny(text, environment) || !containsAny(text, damaged) {
		return nil
	}
	return &Damage{What: shorten(text)}
}

// containsAny reports whether a text contains one of the parts.
func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// classifyLog returns the damage that made containerd exit; nil if it exited for another or an unknown
// reason. The argument is the part of the log that containerd has written since its start. containerd exits
// either with an error message, which is the last line of the log, or with a panic or a fault while it
// executes bbolt: bbolt maps the database into memory, and does not check most of its content. classifyLog is
// pure.
func classifyLog(log string) *Damage {
	if title, stack, crashed := crashIn(log); crashed {
		if !stackOfBolt().MatchString(stack) || containsAny(title, environment) {
			return nil
		}
		return &Damage{What: shorten(title)}
	}
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	text, ok := strings.CutPrefix(lines[len(lines)-1], "containerd: ")
	if !ok {
		return nil
	}
	return classifyText(text)
}

// crashIn finds the last crash of a Go program in its standard error: the message, in one line, and
// the stack of the goroutine that crashed.
func crashIn(log string) (title, stack string, found bool) {
	at := -1
	for _, prefix := range []string{"panic: ", "fatal error: "} {
		at = max(at, strings.LastIndex("\n"+log, "\n"+prefix))
	}
	if at < 0 {
		return "", "", false
	}
	head, rest, _ := strings.Cut(log[at:], "\ngoroutine ")
	head, _, _ = strings.Cut(head, "\n\n")
	_, rest, _ = strings.Cut(rest, "\n") // the goroutine's number and state
	stack, _, _ = strings.Cut(rest, "\n\n")
	return strings.Join(strings.Fields(head), " "), stack, true
}

// shorten returns a text as one line of limited length.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxWhat {
		text = strings.ToValidUTF8(text[:maxWhat], "") + "…"
	}
	return text
}

// storeFiles describes the files of a store that exists before containerd starts.
type storeFiles struct {
	Meta         int64 // size of meta.db; -1 if it does not exist
	Blobs        bool  // there are blobs of images
	Bundles      bool  // there are bundles of containers
	Snapshotters []snapshotterFiles
}

// snapshotterFiles describes the files of one snapshotter.
type snapshotterFiles struct {
	Name      string // overlayfs or native
	Metadata  int64  // size of metadata.db; -1 if it does not exist
	Snapshots bool   // there are snapshots
}

// gap returns the damage of a store whose database is missing or empty. containerd would create
// an empty database in its place, and would then delete the snapshots that running containers
// use, and not know these containers, so that podrun would start them a second time. gap is pure.
func (f storeFiles) gap() *Damage {
	missing := func(name string, size int64) string {
		if size < 0 {
			return name + " is missing"
		}
		return name + " is empty"
	}
	snapshots := false
	for _, s := range f.Snapshotters {
		snapshots = snapshots || s.Snapshots
	}
	if f.Meta <= 0 && (f.Blobs || f.Bundles || snapshots) {
		return &Damage{What: missing("meta.db", f.Meta) + ", but there are images or containers"}
	}
	if snapshots && !f.Blobs { // the sandbox image always has blobs
		return &Damage{What: "all blobs of images are missing, but there are snapshots"}
	}
	for _, s := range f.Snapshotters {
		if s.Metadata <= 0 && s.Snapshots {
			return &Damage{What: fmt.Sprintf("%s, but there are snapshots", missing("metadata.db of the "+s.Name+" snapshotter", s.Metadata))}
		}
	}
	return nil
}
