package netdump

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestRepeat(t *testing.T) {
	broken := errors.New("broken")
	interrupted := fmt.Errorf("list: %w", netlink.ErrDumpInterrupted)
	for name, tc := range map[string]struct {
		errs  []error // the result of each call; the last one repeats
		want  error
		calls int
	}{
		"complete":            {[]error{nil}, nil, 1},
		"interrupted once":    {[]error{interrupted, nil}, nil, 2},
		"another error":       {[]error{interrupted, broken}, broken, 2},
		"always interrupted":  {[]error{interrupted}, netlink.ErrDumpInterrupted, tries},
		"never repeats it":    {[]error{broken, nil}, broken, 1},
		"interrupted at last": {[]error{interrupted, interrupted, interrupted, interrupted, nil}, nil, tries},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			found, err := Repeat(func() (int, error) {
				calls++
				return calls, tc.errs[min(calls, len(tc.errs))-1]
			})
			if !errors.Is(err, tc.want) || calls != tc.calls || found != calls {
				t.Errorf("%d, %v after %d calls", found, err, calls)
			}
		})
	}
}
