package cri

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestBusyAndReserved(t *testing.T) {
	for _, tc := range []struct {
		text           string
		busy, reserved bool
	}{
		{text: `failed to set removing state for container "c": container is in starting state, can't be removed`, busy: true},                                                          // containerd 1.6, 1.7, 2.4
		{text: `failed to set removing state for container "c": container is already in removing state`, busy: true},                                                                    // containerd 1.6, 1.7, 2.4
		{text: `failed to remove container "c": failed to set removing state for container "c": container is in starting state, can't be removed`, busy: true},                          // RemovePodSandbox
		{text: `failed to set starting state for container "c": container is already in starting state`, busy: true},                                                                    // containerd 1.6, 1.7, 2.4
		{text: `failed to set starting state for container "c": container is in removing state, can't be started`, busy: true},                                                          // containerd 1.6, 1.7, 2.4
		{text: `failed to set removing state for container "c": container is still running, to stop first`, busy: true},                                                                 // containerd 1.6, 1.7, 2.4
		{text: `failed to stop sandbox "s": failed to stop sandbox container "s" in "SANDBOX_READY" state: failed to get pod sandbox container: context deadline exceeded`, busy: true}, // containerd 2.4
		{text: `failed to stop sandbox container "s" in "SANDBOX_READY" state: failed to kill sandbox container: ttrpc: closed: unknown`, busy: true},                                   // containerd 1.6
		{text: `failed to reserve sandbox name "web_default_u_0": name "web_default_u_0" is reserved for "abc"`, reserved: true},                                                        // containerd
		{text: `failed to reserve container name "app_web_default_u_0": name "app_web_default_u_0" is reserved for "abc"`, reserved: true},                                              // containerd
		{text: `Kubelet may be retrying requests that are timing out in CRI-O due to system load: error reserving ctr name k8s_app for id abc: name is reserved`, reserved: true},       // CRI-O
		{text: `failed to setup network for sandbox "abc": plugin type="bridge" failed (add)`},
		{text: `container "c" is not running - in state exited`},
	} {
		err := status.Error(codes.Unknown, tc.text)
		if Busy(err) != tc.busy || Reserved(err) != tc.reserved {
			t.Errorf("%s: busy %v, reserved %v", tc.text, Busy(err), Reserved(err))
		}
	}
	if Busy(nil) || Reserved(nil) {
		t.Error("a nil error counts as busy")
	}
}

func TestUnbusyIsBoundedAndEndsWithItsContext(t *testing.T) {
	busy := errors.New("container is in starting state, can't be removed")
	for _, tc := range []struct {
		name string
		// time at which the runtime is no longer busy; 0 means never
		until  time.Duration
		cancel time.Duration // time at which the test cancels the context; 0 means never
		want   error
		took   time.Duration
	}{
		{name: "it ends its work", until: 3 * time.Second, took: 3 * time.Second},
		{name: "it never does", want: busy, took: BusyFor},
		{name: "the command ends", cancel: time.Second, want: busy, took: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				begun := time.Now()
				err := retryBusy(ctx, func() error {
					if tc.until > 0 && time.Since(begun) >= tc.until {
						return nil
					}
					return busy
				})
				if took := time.Since(begun); !errors.Is(err, tc.want) || took < tc.took || took > tc.took+2*busyPoll {
					t.Errorf("%v after %v, want %v after %v", err, took, tc.want, tc.took)
				}
			})
		})
	}
}

// TestOnceInitialized checks calls while containerd starts: it listens before its services are
// ready. The first command after a start of containerd must wait for the services, up to the
// command's own deadline.
func TestOnceInitialized(t *testing.T) {
	starting := status.Error(codes.Unavailable, "server is not initialized yet")
	absent := status.Error(codes.Unavailable, "connection refused")
	for _, tc := range []struct {
		name    string
		answers []error // responses of the server; it repeats the last one
		within  time.Duration
		want    error
		took    time.Duration
	}{
		{name: "ready", answers: []error{nil}, within: time.Minute},
		{name: "soon ready", answers: []error{starting, starting, nil}, within: time.Minute, took: 2 * busyPoll},
		{name: "never ready", answers: []error{starting}, within: time.Minute, want: starting, took: BusyFor + busyPoll},
		{name: "the deadline comes first", answers: []error{starting}, within: time.Second, want: starting, took: time.Second},
		{name: "absent", answers: []error{absent, nil}, within: time.Minute, want: absent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.within)
				defer cancel()
				calls, begun := 0, time.Now()
				err := onceInitialized(ctx, "/runtime.v1.RuntimeService/Version", nil, nil, nil,
					func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
						calls++
						return tc.answers[min(calls, len(tc.answers))-1]
					})
				if !errors.Is(err, tc.want) {
					t.Errorf("error %v after %d calls", err, calls)
				}
				if took := time.Since(begun); took < tc.took-busyPoll || took > tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
			})
		})
	}
}
