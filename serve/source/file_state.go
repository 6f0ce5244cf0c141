package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
)

const (
	// writerSettles is the number of settle times after which podrun considers a file complete
	// that is still open for writing, but has not changed.
	writerSettles = 10
	// If a file's content is at least racyWindow old when podrun reads it, any later content has a
	// different modification time. (The resolution of file systems is up to 2 s, for FAT.)
	racyWindow = 2 * time.Second
	// maxFileProblems limits how many problems of one file podrun keeps.
	maxFileProblems = 20
	// maxObjects limits how many objects of one directory take effect, as for one command.
	maxObjects = 10000
)

// writer reports whether a process has the file open for writing.
type writer int

const (
	noWriter writer = iota
	hasWriter
	// The file system does not report it (NFS, FUSE), or podrun lacks permission.
	writerUnknown
)

// observation contains the facts that a pass has read about one file of a directory.
type observation struct {
	name  string
	print print
	err   error // why the content is unknown; nil otherwise
	// the data was not read, because print is unchanged
	kept        bool
	data        []byte
	writer      writer
	permissions permissions // which users can change the file
	// the content is a server's response, so it is complete; only an empty list means that the source
	// defines no pods
	remote bool
	// the data is that of an artifact (decodeArtifact)
	artifact bool
}

// rules are the inputs, apart from the files, of the decisions in one pass.
type rules struct {
	now      time.Time
	settle   time.Duration
	manifest manifest.Options
}

// usage is the total size of the files of a directory, and the number of their objects.
type usage struct {
	bytes   int64
	objects int
}

// file determines the state of a file. If the file is new, prev is nil.
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
			Message: fmt.Sprintf("with this file, the directory exceeds the limit of %d MiB or %d objects", input.MaxInput>>20, maxObjects),
			Hint:    "move manifests to another directory"}}
		objects = nil
	}
	if age < r.settle && (objects == nil || o.writer == writerUnknown || f.inode == o.print.inode && loses(f.Objects, objects)) {
		f.State = Incomplete
		return f
	}
	f.Hash = hash
	f.Problems = problems
	f.settled = Broken
	if objects != nil {
		in.replace(&f, o, objects)
		f.settled = Good
		f.Objects = objects
		f.bytes = int64(len(o.data))
		f.inode = o.print.inode
	}
	f.State = f.settled
	return f
}

// age returns how long the file has been unchanged. f is the file's previous state. In these
// cases it relies only on podrun's own observations: the clock may have jumped; a modification
// time may be in the future; the kernel may show a truncated file with its new size but its old
// modification time.
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

// hash returns a text that identifies the observed content, or the failure to read it.
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
	// A pod from a directory keeps its name and its restartPolicy, whatever the options of other
	// commands are.
	opts.Suffix = nil
	opts.RestartPolicy = ""
	opts.ToEnd = false
	opts.Controllers = true
	objects, problems := manifest.Load(o.sources(name), opts)
	hint := "remove the file to remove its pods"
	if o.remote {
		hint = "to remove its pods, serve {apiVersion: v1, kind: List, items: []} at the URL"
	}
	problems = withoutNoPod(problems, count(objects) > 0 || len(objects.Skipped) > 0 || o.remote && slices.ContainsFunc(o.sources(name), func(s input.Source) bool { return isEmptyList(s.Data) }), hint)
	if len(problems.Errors()) > 0 {
		return nil, cut(problems)
	}
	refused := refuseJobs(objects)
	return objects, cut(append(refused, problems...))
}

// sources returns the manifests in the data. name is that of the file or URL.
func (o observation) sources(name string) []input.Source {
	if !o.artifact {
		return []input.Source{{Name: name, Data: o.data}}
	}
	files, _ := decodeArtifact(o.data) // if the copy is corrupt, the manifests before the fault are not used either
	var out []input.Source
	for _, f := range files {
		out = append(out, input.Source{Name: name + "/" + f.name, Data: f.data})
	}
	return out
}

// withoutNoPod drops the problem that a file has no pod. A file in a directory may have only
// ConfigMaps, for example. podrun still refuses a file without any object, because the file may
// be truncated.
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

// exceeds reports whether the directory would exceed its limits with the new content of a file.
func (u *usage) exceeds(f *File, o observation, objects *manifest.Objects) bool {
	return u.bytes-f.bytes+int64(len(o.data)) > input.MaxInput || u.objects-count(f.Objects)+count(objects) > maxObjects
}

func (u *usage) replace(f *File, o observation, objects *manifest.Objects) {
	u.bytes += int64(len(o.data)) - f.bytes
	u.objects += count(objects) - count(f.Objects)
}

// loses reports whether an object in "before" is missing from "after", as is the case if only a part
// of the file was written.
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
	if lacks(jobNames(after), jobNames(before)) {
		return true
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

// jobNames returns the names of the Jobs and CronJobs, with their kinds.
func jobNames(o *manifest.Objects) map[string]bool {
	names := map[string]bool{}
	for i := range o.Jobs {
		names["Job "+keyOf(&o.Jobs[i].Template)] = true
	}
	for i := range o.CronJobs {
		names["CronJob "+keyOf(&o.CronJobs[i].Template)] = true
	}
	return names
}
