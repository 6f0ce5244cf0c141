package source

import (
	"path/filepath"
)

// MayDefine reports whether, and why, the file at path may still define a pod that was started from
// it, although no file is known to define the pod. In this case, the pod must not be removed. The
// possible reasons are that the directory cannot be read, appeared only a moment ago (an editor may
// be replacing the file), or is no longer a manifest directory; or that the file has not been valid
// since podrun started.
func (s *Snapshot) MayDefine(path string) (may bool, why string) {
	path = encodable(path)
	parent := filepath.Dir(path)
	for i := range s.Dirs {
		d := &s.Dirs[i]
		if at := encodable(d.Path); at != parent && at != path { // a URL and a single file are their own path
			continue
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
	return true, "directory " + printable(parent) + " is not a manifest directory of this podrun"
}

// Complete reports whether all objects of all directories are known. If not, an object to
// which a pod refers may exist without being in Desired, because a directory has been
// unreachable, or a file invalid, since podrun started.
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
