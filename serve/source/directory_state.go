package source

import (
	"context"
	"path"
	"strings"
	"time"
)

// listing is the content that a pass finds in a directory.
type listing struct {
	err      error // why the directory cannot be read; nil if it can
	identity Identity
	// the directory has a file .keep, so it is intentionally empty
	marked  bool
	files   []observation // by name
	ignored []string      // printable names
	exposed []string      // printable names of files that users other than root can write
	// the signed list of the directory; empty without a Verification
	signed   signedList
	unsigned []string // printable names of manifests that the list lacks
}

// keepMarker is the name of the file that marks a directory without manifests as intentionally
// empty. Without it, an empty directory may be a mount point whose file system is not mounted.
const keepMarker = ".keep"

// dir determines the state of a directory. In the first pass, prev is nil, and remembered is
// the identity that an earlier process has read, or zero. If ctx ends, the result is
// incomplete.
func (r rules) dir(ctx context.Context, path string, prev *Dir, remembered Identity, l listing) Dir {
	d := Dir{Path: path, Identity: remembered}
	if prev != nil {
		d = *prev
	}
	if l.err != nil {
		d.State = failedState(l.err)
		d.Why = l.err.Error()
		return d
	}
	if d.replaced(l) {
		d.State = Unreachable
		d.Why = "the directory was replaced by an empty directory: a file system may not be mounted (if the directory is intentionally empty, create the file " + keepMarker + " in it)"
		return d
	}
	if d.State != Present || d.Identity != l.identity {
		d.Files = afresh(d.Files, r.now)
		d.arrived = r.now
	}
	d.young = r.now.Sub(d.arrived) < r.settle
	d.State = Present
	d.Why = ""
	d.Identity = l.identity
	d.listed = true
	d.Ignored = l.ignored
	d.Exposed = l.exposed
	d.Unsigned = l.unsigned
	d.Files = r.files(ctx, path, d.Files, l.files)
	return d
}

// replaced reports whether the directory was replaced by an empty one. If an earlier process
// read the directory, its device number may have changed since then.
func (d *Dir) replaced(l listing) bool {
	if len(l.files) > 0 || l.marked || d.Identity == (Identity{}) {
		return false
	}
	if !d.listed {
		return d.Identity.Inode != l.identity.Inode
	}
	return d.Identity != l.identity && len(d.Files) > 0
}

// afresh restarts the settle time of missing files, because no file could reappear while the
// directory was unreachable.
func afresh(files []File, now time.Time) []File {
	out := make([]File, len(files))
	for i, f := range files {
		if f.State == Missing {
			f.since = now
		}
		out[i] = f
	}
	return out
}

// files determines the states of the files of a directory, including removed ones. Both
// lists and the result are sorted by name.
func (r rules) files(ctx context.Context, dir string, prev []File, found []observation) []File {
	var in usage
	for i := range prev {
		in.bytes += prev[i].bytes
		in.objects += count(prev[i].Objects)
	}
	var out []File
	for (len(prev) > 0 || len(found) > 0) && ctx.Err() == nil {
		switch {
		case len(found) == 0 || len(prev) > 0 && prev[0].name < found[0].name:
			if f, ok := r.removed(prev[0]); ok {
				out = append(out, f)
			}
			prev = prev[1:]
		case len(prev) == 0 || found[0].name < prev[0].name:
			out = append(out, r.file(dir, nil, found[0], &in))
			found = found[1:]
		default:
			out = append(out, r.file(dir, &prev[0], found[0], &in))
			prev, found = prev[1:], found[1:]
		}
	}
	return out
}

// removed determines the state of a removed file. It returns false if the file must be
// discarded.
func (r rules) removed(f File) (File, bool) {
	if f.State != Missing {
		f.State = Missing
		f.since = r.now
	}
	return f, r.now.Sub(f.since) < r.settle
}

// readAgain returns the time after which the directory must be read again; 0 if that is not
// necessary.
func (r rules) readAgain(d *Dir) time.Duration {
	var soonest time.Duration
	if d.State != Present {
		return 0
	}
	if d.young {
		soonest = max(d.arrived.Add(r.settle).Sub(r.now), time.Millisecond)
	}
	for i := range d.Files {
		f := &d.Files[i]
		if f.State != Incomplete && f.State != Missing {
			continue
		}
		// A writer may close the file at any time, and no event announces that.
		wait := r.settle / 4
		if f.State == Missing {
			wait = f.since.Add(r.settle).Sub(r.now)
		}
		wait = max(wait, time.Millisecond)
		if soonest == 0 || wait < soonest {
			soonest = wait
		}
	}
	return soonest
}

// unread returns the attributes of files of the previous pass. If a file still has these
// attributes, it need not be read again.
func unread(prev *Dir) map[string]print {
	out := map[string]print{}
	if prev == nil {
		return out
	}
	for i := range prev.Files {
		f := &prev.Files[i]
		if (f.State == Good || f.State == Broken) && !f.racy && f.failure == "" {
			out[f.name] = f.print
		}
	}
	return out
}

// nameKind determines how a name in a directory is handled.
type nameKind int

const (
	ignoreName   nameKind = iota // not read and not reported
	foreignName                  // not read, but reported once
	manifestName                 // read, if it is a regular file
)

// kindOfName classifies a name. Names that begin with a dot are hidden, as for the kubelet.
// Temporary files of editors are ignored, because they exist only briefly.
func kindOfName(name string) nameKind {
	hidden := strings.HasPrefix(name, ".") || name == "lost+found"
	emacs := strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
	if hidden || emacs || name == "4913" {
		return ignoreName
	}
	for _, suffix := range []string{"~", ".swp", ".swx", ".swo", ".tmp", "___jb_tmp___", "___jb_old___"} {
		if strings.HasSuffix(name, suffix) {
			return ignoreName
		}
	}
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return manifestName
	}
	return foreignName
}

// IsManifestName reports whether a file of this name is read: it ends in .yaml, .yml or .json, and is not hidden.
func IsManifestName(name string) bool { return kindOfName(name) == manifestName }

// join returns the path of a file of a source or, if the source is a URL, the URL. The name is empty if
// the source is a single file.
func join(dir, name string) string {
	if IsRemote(dir) {
		return dir
	}
	return path.Join(dir, name)
}
