// Package copytar writes local files to a tar stream, and extracts a stream that a
// container produced. Such a stream may be hostile: nothing is written outside of the
// destination, regardless of the names and links in the stream (CVE-2018-1002100,
// CVE-2019-1002101, CVE-2019-11246, CVE-2019-11249, CVE-2019-11251).
package copytar

import "path"

// within returns the name of an entry relative to the one that was asked for, "." for
// itself; ok is false if the entry is not below it.
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
