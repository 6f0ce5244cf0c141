// Package netdump repeats lists of links, addresses, routes or rules that a change of the host's network
// interrupted. The kernel sends a long list in several messages; if an interface appears or disappears between
// them, the list may be incomplete, and netlink returns ErrDumpInterrupted.
package netdump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// tries is the maximum number of calls. A list takes less than a millisecond, so that several
// interruptions in a row are unlikely.
const tries = 5

// Repeat calls list until it succeeds or returns an error other than ErrDumpInterrupted, but at most tries
// times. It returns the result of the last call.
func Repeat[T any](list func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		found, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == tries {
			return found, err
		}
	}
}
