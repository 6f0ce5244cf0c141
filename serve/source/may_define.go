package source

import (
	"path/filepath"
)

// MayDefine reports whether the file at path may still define a pod, and why. The pod was started
// from that file, but no file is known to define it now. If the file may define it, podrun must not
// remove the pod. These are the possible reasons: the directory cannot be read; it appeared only a
// moment ago, so an editor may be replacing the file; it is no longer a manifest directory; or the
// file has not been valid since podrun started.
func (s *Snapshot) MayDefine(path string) (may bool, why string) {
	path = encodable(path)
	if IsAPIServerPath(path) {
		return s.API.mayDefine(path)
	}
	if s.Records != "" && filepath.Dir(path) == s.Records {
		if why := s.Unreadable[path]; why != nil {
			return true, "podrun cannot read " + printable(path) + ": " + why.Error()
		}
		return false, ""
	}
	if s.Undecided[path] {
		return true, "podrun has not started the Jobs of " + printable(path) + " yet"
	}
	d := s.sourceOf(path)
	if d == nil {
		return true, "directory " + printable(filepath.Dir(path)) + " is not a manifest directory of this podrun"
	}
	if d.stale {
		return true, d.kind() + " " + printable(d.Path) + " has not been read since podrun started"
	}
	if d.State != Present {
		return true, d.kind() + " " + printable(d.Path) + " is unreachable: " + d.Why
	}
	known := false
	for j := range d.Files {
		f := &d.Files[j]
		if f.Path == path && f.Objects == nil {
			return true, "file " + printable(path) + " has not been valid since podrun started"
		}
		known = known || f.Path == path
	}
	if !known && d.young {
		return true, "directory " + printable(d.Path) + " has just appeared and may be incomplete"
	}
	return false, ""
}

// sourceOf returns the source that contains the file at path, or nil.
func (s *Snapshot) sourceOf(path string) *Dir {
	for i := range s.Dirs {
		// The path of a URL or of a single file is also the path of the source.
		if at := encodable(s.Dirs[i].Path); at == filepath.Dir(path) || at == path {
			return &s.Dirs[i]
		}
	}
	return nil
}

// Reads reports whether path is that of an API server, of a record of a Job, or of a file in the sources,
// even if a source cannot be read.
func (s *Snapshot) Reads(path string) bool {
	path = encodable(path)
	return IsAPIServerPath(path) || s.Records != "" && filepath.Dir(path) == s.Records || s.sourceOf(path) != nil
}

// Complete reports whether podrun knows all objects of all directories. If not, an object to
// which a pod refers may exist although Desired lacks it: since podrun started, a directory has
// been unreachable, or a file invalid.
func (s *Snapshot) Complete() bool {
	for i := range s.Dirs {
		if !s.Dirs[i].listed || s.Dirs[i].stale {
			return false
		}
		for j := range s.Dirs[i].Files {
			if s.Dirs[i].Files[j].Objects == nil {
				return false
			}
		}
	}
	return true
}
