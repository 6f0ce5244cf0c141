package parity

import (
	"slices"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
)

func TestSortAhead(t *testing.T) {
	now := time.Now()
	call := func(method, subject string, at int) critest.Call {
		return critest.Call{Method: method, Subject: subject, Start: now.Add(time.Duration(at) * time.Second)}
	}
	for name, tc := range map[string]struct{ calls, want []critest.Call }{
		"adjacent": {
			[]critest.Call{call("CreateContainer", "a", 0), call("CreateContainer", "b", 0), call("StartContainer", "a", 0)},
			[]critest.Call{call("CreateContainer", "a", 0), call("StartContainer", "a", 0), call("CreateContainer", "b", 0)},
		},
		"a pull in between": {
			[]critest.Call{call("CreateContainer", "a", 0), call("CreateContainer", "b", 0), call("PullImage", "image", 0), call("StartContainer", "a", 0)},
			[]critest.Call{call("CreateContainer", "a", 0), call("StartContainer", "a", 0), call("CreateContainer", "b", 0), call("PullImage", "image", 0)},
		},
		"sorted": {
			[]critest.Call{call("CreateContainer", "a", 0), call("StartContainer", "a", 0), call("CreateContainer", "b", 0), call("StartContainer", "b", 0)},
			[]critest.Call{call("CreateContainer", "a", 0), call("StartContainer", "a", 0), call("CreateContainer", "b", 0), call("StartContainer", "b", 0)},
		},
		"not at the same time": {
			[]critest.Call{call("CreateContainer", "a", 0), call("CreateContainer", "b", 0), call("StartContainer", "a", 1)},
			[]critest.Call{call("CreateContainer", "a", 0), call("CreateContainer", "b", 0), call("StartContainer", "a", 1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sortAhead(tc.calls)
			for i, c := range tc.calls {
				if c.Method != tc.want[i].Method || c.Subject != tc.want[i].Subject {
					t.Fatalf("call %d is %s %s, want %s %s", i, c.Method, c.Subject, tc.want[i].Method, tc.want[i].Subject)
				}
			}
			if !slices.EqualFunc(tc.calls, tc.want, func(a, b critest.Call) bool { return a.Start.Equal(b.Start) }) {
				t.Error("the times were changed")
			}
		})
	}
}
