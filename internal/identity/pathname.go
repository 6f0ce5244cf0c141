package identity

import (
	"fmt"
	"strings"
)

// pathName returns a name as one element of a path. Every name in the paths of Layout passes through it, because a
// name may come from an API server, whose objects podrun does not validate: "../../etc" must not leave the directory.
// It does not change a valid name. In other names it escapes '/', NUL and '%' as in URLs, and a name that consists of
// dots only. Therefore, different names remain different. An empty name becomes "%".
func pathName(name string) string {
	if name == "" {
		return "%"
	}
	if !strings.ContainsAny(name, "/%\x00") && strings.Trim(name, ".") != "" {
		return name
	}
	dots := strings.Trim(name, ".") == ""
	var out strings.Builder
	for i := range len(name) {
		if c := name[i]; c == '/' || c == '%' || c == 0 || dots {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// PairName returns NAMESPACE_NAME as one element of a path. It escapes '_', so that a pair of other names never gets
// the same element.
func PairName(namespace, name string) string {
	escape := func(s string) string { return strings.ReplaceAll(pathName(s), "_", "%5F") }
	return escape(namespace) + "_" + escape(name)
}
