package problem

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// maxBrief is the maximum length of the text that Brief keeps, in bytes.
const maxBrief = 1 << 10

// Brief truncates a server's text to 1 KiB, for use in a message. A text such as the status
// line of an HTTP response may have any length.
func Brief(text string) string {
	if len(text) <= maxBrief {
		return text
	}
	return fmt.Sprintf("%s... [%d more bytes]", strings.ToValidUTF8(text[:maxBrief], ""), len(text)-maxBrief)
}

// ShownURL returns a name in a form for messages and for files that other users may read. If the
// name is a URL, the result omits user, query and fragment. These parts may contain credentials.
func ShownURL(name string) string {
	scheme, rest, isURL := strings.Cut(name, "://")
	if !isURL {
		return name
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme + "://" + users().ReplaceAllString(rest, "$1")
}

// users matches the user part of a URL after its scheme. It also matches the user part of each
// URL that follows, because flags accept lists.
var users = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|://)[^/]*@`) })

// ShownURLs applies ShownURL to each URL in a text. A URL ends at a space or a quotation
// mark.
func ShownURLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return urls().ReplaceAllStringFunc(text, ShownURL)
}

var urls = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`) })
