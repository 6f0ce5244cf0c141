package cri

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestUntilDue checks that an error that reports an expired deadline is returned after the
// deadline, and that other errors are returned immediately.
func TestUntilDue(t *testing.T) {
	for _, test := range []struct {
		name string
		// time between the server's return and the deadline
		left time.Duration
		code codes.Code
		over bool
	}{
		{"the server was early", 20 * time.Millisecond, codes.DeadlineExceeded, true},
		{"cancelled by the server", 20 * time.Millisecond, codes.Canceled, true},
		{"a limit of the command's own", time.Minute, codes.DeadlineExceeded, false},
		{"another error", 20 * time.Millisecond, codes.Unavailable, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.left)
				defer cancel()
				answer := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					return status.Error(test.code, "from the server")
				}
				err := untilDue(ctx, "", nil, nil, nil, answer)
				if status.Code(err) != test.code {
					t.Errorf("got %v, want code %s", err, test.code)
				}
				if over := ctx.Err() != nil; over != test.over {
					t.Errorf("the context has ended: %v, want %v", over, test.over)
				}
			})
		})
	}
}

// TestObserve checks that an observer receives each call with its duration and error, and that
// the caller gets the error unchanged.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{}
		failure := status.Error(codes.Unavailable, "away")
		answer := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			time.Sleep(time.Second)
			return failure
		}
		call := func() error {
			return c.observed(t.Context(), "/runtime.v1.RuntimeService/RunPodSandbox", nil, nil, nil, answer)
		}
		if err := call(); err != failure {
			t.Errorf("without an observer: %v", err)
		}
		calls := 0
		c.Observe(func(method string, took time.Duration, err error) {
			if calls++; method != "RunPodSandbox" || took != time.Second || err != failure {
				t.Errorf("observed %s %s %v", method, took, err)
			}
		})
		if err := call(); err != failure || calls != 1 {
			t.Errorf("with an observer: %v, %d calls", err, calls)
		}
	})
}
