// Package copytar writes local files to a tar stream, and extracts a stream that a container
// produced. Such a stream may be hostile. Regardless of the names and links in the stream, copytar
// never writes outside the destination (CVE-2018-1002100, CVE-2019-1002101, CVE-2019-11246,
// CVE-2019-11249, CVE-2019-11251). It never writes more bytes than the stream contains. Local files
// may belong to a user who changes them during the copy; even then, copytar reads nothing outside
// the directory.
package copytar

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Limits on paths in a stream and in a local tree. maxPath is the kernel's PATH_MAX.
const (
	maxDepth = 500
	maxPath  = 4096 // bytes
)

// maxWarnings is the maximum number of skipped files for which a copy operation prints separate
// warnings. For the other ones, it prints only their number.
const maxWarnings = 100

var (
	errDeep   = fmt.Errorf("its path has more than %d bytes or more than %d levels", maxPath, maxDepth)
	errSparse = errors.New("is a sparse file, which podrun does not unpack, because that would fill the file's holes: create the archive without tar --sparse")
)

// checkPath returns an error for a path that exceeds the limits.
func checkPath(name string) error {
	if len(name) > maxPath || strings.Count(name, "/") > maxDepth {
		return errDeep
	}
	return nil
}

// warnings reports files that were skipped: first the names of the first maxWarnings files, and
// then the number of the others.
type warnings struct {
	warn func(string)
	n    int
}

func (w *warnings) add(format string, args ...any) {
	if w.n++; w.n <= maxWarnings {
		w.warn(fmt.Sprintf(format, args...))
	}
}

func (w *warnings) end() {
	if w.n > maxWarnings {
		w.warn(fmt.Sprintf("and %d more skipped files", w.n-maxWarnings))
	}
}

// within returns the name of an entry relative to top, the requested entry. The name of top itself
// is ".". The result ok is false if the entry is not below top.
func within(name, top string) (rel string, ok bool) {
	name, top = path.Clean("/"+name), path.Clean("/"+top)
	switch {
	case name == top:
		return ".", true
	case top == "/":
		return name[1:], true
	case len(name) > len(top) && name[:len(top)+1] == top+"/":
		return name[len(top)+1:], true
	}
	return "", false
}
