package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

const (
	// writerSettles is the number of settle times for which a file may stay open for writing,
	// without a change, before it is considered complete.
	writerSettles = 10
	// racyWindow is the minimum age of a content at the time of reading that guarantees
	// that a later content has a different modification time: the resolution of file
	// systems is up to 2 s (FAT).
	racyWindow = 2 * time.Second
	// maxFileProblems limits how many problems of one file are kept.
	maxFileProblems = 20
	// maxObjects limits how many objects of one directory are in effect, like the limit for
	// one command.
	maxObjects = 10000
)

// writer reports whether a process has the file open for writing.
type writer int

const (
	noWriter writer = iota
	hasWriter
	writerUnknown // the file system does not report it (NFS, FUSE), or podrun lacks permission
)

// observation is one file of a directory as found by one pass.
type observation struct {
	name        string
	print       print
	err         error // why the content is unknown; nil otherwise
	kept        bool  // data was not read because print is unchanged
	data        []byte
	writer      writer
	permissions permissions // which users can change the file
	remote      bool        // the content is a server's response: it is complete, and only an empty list means that the source defines no pods
}

// rules are the inputs, other than the files, of the decisions in one pass.
type rules struct {
	now      time.Time
	settle   time.Duration
	manifest manifest.Options
}

// usage is the total size and object count of the files of a directory.
type usage struct {
	bytes   int64
	objects int
}

// file determines the state of a file. prev is nil for a new file.
func (r rules) file(dir string, prev *File, o observation, in *usage) File {
	path := encodable(join(dir, o.name))
	f := File{Path: path, name: o.name, since: r.now}
	if prev != nil {
		f = *prev
		if f.State == Missing || f.print != o.print || f.failure != o.failure() {
			f.since = r.now
		}
	}
	f.failure = o.failure()
	if o.kept {
		f.State = f.settled
		return f
	}
	age := r.age(&f, o)
	f.print = o.print
	f.racy = age < racyWindow
	hash := o.hash()
	if f.settled != "" && hash == f.Hash {
		f.State = f.settled
		return f
	}
	if o.writer == hasWriter && age < writerSettles*r.settle {
		f.State = Incomplete
		return f
	}
	objects, problems := r.load(printable(join(dir, o.name)), o)
	if objects != nil && in.exceeds(&f, o, objects) {
		problems = problem.List{{File: printable(path), Reason: "TooLarge",
			Message: fmt.Sprintf("with this file, the directory exceeds the limit of %d MiB or %d objects", manifest.MaxInput>>20, maxObjects),
			Hint:    "move manifests to another directory"}}
		objects = nil
	}
	if age < r.settle && (objects == nil || o.writer == writerUnknown || f.inode == o.print.inode && loses(f.Objects, objects)) {
		f.State = Incomplete
		return f
	}
	f.Hash, f.Problems = hash, problems
	f.settled = Broken
	if objects != nil {
		in.replace(&f, o, objects)
		f.settled, f.Objects, f.bytes, f.inode = Good, objects, int64(len(o.data)), o.print.inode
	}
	f.State = f.settled
	return f
}

// age returns how long the file has been unchanged; f is its previous state. The clock may
// jump, a modification time may be in the future, and the kernel may show a truncated file
// with its new size but its old modification time: in these cases, only podrun's own
// observations count.
func (r rules) age(f *File, o observation) time.Duration {
	seen := r.now.Sub(f.since)
	if f.print != o.print {
		f.untimed = !o.remote && f.print != print{} && f.print.modified == o.print.modified
	}
	if o.err != nil || f.untimed {
		return seen
	}
	return max(seen, r.now.Sub(time.Unix(0, o.print.modified)))
}

// failure returns why the file could not be read; "" if it was read.
func (o observation) failure() string {
	if o.err != nil {
		return "unreadable: " + o.err.Error()
	}
	return ""
}

// hash identifies the content.
func (o observation) hash() string {
	if o.err != nil {
		return o.failure()
	}
	sum := sha256.Sum256(o.data)
	return hex.EncodeToString(sum[:])
}

// load returns the objects of a file; nil if the whole file is refused.
func (r rules) load(name string, o observation) (*manifest.Objects, problem.List) {
	if o.err != nil {
		return nil, problem.List{{File: name, Reason: "Unreadable", Message: o.err.Error(),
			Hint: "correct the file, or remove it to remove its pods"}}
	}
	opts := r.manifest
	// A pod from a directory keeps its name and its restartPolicy, whatever the options for other
	// commands are.
	opts.Suffix, opts.RestartPolicy, opts.ToEnd = nil, "", false
	objects, problems := manifest.Load([]manifest.Source{{Name: name, Data: o.data}}, opts)
	hint := "remove the file to remove its pods"
	if o.remote {
		hint = "to remove its pods, serve {apiVersion: v1, kind: List, items: []} at the URL"
	}
	problems = withoutNoPod(problems, count(objects) > 0 || len(objects.Skipped) > 0 || o.remote && isEmptyList(o.data), hint)
	if len(problems.Errors()) > 0 {
		return nil, cut(problems)
	}
	refused := refuseCronJobs(objects)
	return objects, cut(append(refused, problems...))
}

// withoutNoPod drops the problem of a missing pod: a file in a directory may contain only
// ConfigMaps, for example. A file without any object is still refused, because it may be truncated.
func withoutNoPod(problems problem.List, some bool, hint string) problem.List {
	var out problem.List
	for i, p := range problems {
		if p.Reason == "NoPod" {
			if some || i > 0 {
				continue
			}
			p.Hint = hint
		}
		out = append(out, p)
	}
	return out
}

func cut(problems problem.List) problem.List {
	if rest := len(problems) - maxFileProblems; rest > 0 {
		file := problems[0].File
		problems = append(problems[:maxFileProblems:maxFileProblems], problem.Problem{File: file, Reason: "TooManyProblems",
			Message: fmt.Sprintf("and %d more problems", rest), Warning: true})
	}
	return problems
}

// exceeds reports whether the new content of a file would exceed the directory's limits.
func (u *usage) exceeds(f *File, o observation, objects *manifest.Objects) bool {
	return u.bytes-f.bytes+int64(len(o.data)) > manifest.MaxInput || u.objects-count(f.Objects)+count(objects) > maxObjects
}

func (u *usage) replace(f *File, o observation, objects *manifest.Objects) {
	u.bytes += int64(len(o.data)) - f.bytes
	u.objects += count(objects) - count(f.Objects)
}

// loses reports whether an object in before is missing in after, as happens when a file was
// written only in part.
func loses(before, after *manifest.Objects) bool {
	if before == nil {
		return false
	}
	pods := map[string]bool{}
	for i := range after.Pods {
		pods[keyOf(&after.Pods[i])] = true
	}
	for i := range before.Pods {
		if !pods[keyOf(&before.Pods[i])] {
			return true
		}
	}
	return lacks(after.ConfigMaps, before.ConfigMaps) || lacks(after.Secrets, before.Secrets) ||
		lacks(after.Claims, before.Claims) || lacks(after.Volumes, before.Volumes) ||
		lacks(after.RuntimeClasses, before.RuntimeClasses) || lacks(after.PriorityClasses, before.PriorityClasses)
}

func lacks[T any](have, want map[string]T) bool {
	for key := range want {
		if _, ok := have[key]; !ok {
			return true
		}
	}
	return false
}
