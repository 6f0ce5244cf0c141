package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errTest = errors.New("no way")

// call is a command that the fake runtime was requested to run.
type call struct {
	id      string
	command string
	timeout time.Duration
}

func TestExec(t *testing.T) {
	for _, test := range []struct {
		name    string
		stdout  string
		code    int32
		err     error
		want    Result
		wantErr error
		calls   int
	}{
		{"success", "out\n", 0, nil, Result{Success, "out\nerr\n"}, nil, 1},
		{"exit code", "out\n", 3, nil, Result{Failure, "out\nerr\n"}, nil, 1},
		{"CRI-O's timeout", "", -1, nil, Result{Failure, "err\n"}, nil, 1},
		{"output is cut", strings.Repeat("x", 20000), 1, nil, Result{Failure, strings.Repeat("x", 10240)}, nil, 1},
		// https://github.com/kubernetes/kubernetes/issues/92464
		{"containerd's timeout", "", 0, fmt.Errorf("exec: %w", status.Error(codes.DeadlineExceeded, "too long")),
			Result{Failure, `command timed out: "sh -c sleep 9" timed out after 2s`}, nil, 1},
		{"a plain timeout", "", 0, context.DeadlineExceeded, Result{Failure, `command timed out: "sh -c sleep 9" timed out after 2s`}, nil, 1},
		{"an error is tried again", "", 0, errTest, Result{Outcome: Unknown}, errTest, 3},
	} {
		var calls []call
		got, err := Run(t.Context(), Plan{Exec: []string{"sh", "-c", "sleep 9"}, TimeoutSeconds: 2},
			Target{ContainerID: "c1", Exec: func(_ context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, int32, error) {
				calls = append(calls, call{id, strings.Join(command, "|"), timeout})
				return []byte(test.stdout), []byte("err\n"), test.code, test.err
			}})
		if got != test.want || !errors.Is(err, test.wantErr) {
			t.Errorf("%s: %.100q %v", test.name, got, err)
		}
		if len(calls) != test.calls || calls[0] != (call{"c1", "sh|-c|sleep 9", 2 * time.Second}) {
			t.Errorf("%s: %d calls: %v", test.name, len(calls), calls)
		}
	}
}

func TestRunTriesUntilItIsRun(t *testing.T) {
	calls := 0
	got, err := Run(t.Context(), Plan{Exec: []string{"a"}}, Target{Exec: func(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
		if calls++; calls < 3 {
			return nil, nil, 0, errTest
		}
		return nil, nil, 1, nil
	}})
	if err != nil || got.Outcome != Failure || calls != 3 {
		t.Errorf("%v %v after %d", got, err, calls)
	}
}

func TestRunEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errTest) })
		calls := 0
		got, err := Run(ctx, Plan{Exec: []string{"a"}}, Target{Exec: func(ctx context.Context, _ string, _ []string, _ time.Duration) ([]byte, []byte, int32, error) {
			calls++
			<-ctx.Done()
			return nil, nil, 0, status.FromContextError(ctx.Err()).Err()
		}})
		if got.Outcome != Unknown || !errors.Is(err, errTest) || calls != 1 {
			t.Errorf("%v %v after %d calls", got, err, calls)
		}
	})
}

func TestProblemIsNotTried(t *testing.T) {
	got, err := Run(t.Context(), Plan{Problem: "no port", TCP: &TCP{}}, Target{PodIP: "127.0.0.1"})
	if got.Outcome != Unknown || err == nil || err.Error() != "no port" {
		t.Errorf("%v %v", got, err)
	}
}

// TestWithoutIP checks that podrun does not probe a pod without an IP. An empty host would mean
// this machine.
func TestWithoutIP(t *testing.T) {
	for name, plan := range map[string]Plan{
		"http": {HTTP: &HTTP{Scheme: "http", Port: 80}}, "tcp": {TCP: &TCP{Port: 80}}, "grpc": {GRPC: &GRPC{Port: 80}},
	} {
		got, err := Run(t.Context(), plan, Target{})
		if got.Outcome != Unknown || err == nil || err.Error() != "the pod has no IP to probe" {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// closedPort returns a port on which no process listens, or can listen until the test ends: the port of a client.
func closedPort(t *testing.T) int {
	t.Helper()
	client, err := net.Dial("tcp", listen(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client.LocalAddr().(*net.TCPAddr).Port
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func TestTCP(t *testing.T) {
	open, closed := portOf(listen(t)), closedPort(t)
	for _, test := range []struct {
		name    string
		address TCP
		podIP   string
		want    Result
	}{
		{"open", TCP{Port: open}, "127.0.0.1", Result{Success, ""}},
		{"own host", TCP{Host: "localhost", Port: open}, "192.0.2.1", Result{Success, ""}},
		{"closed", TCP{Port: closed}, "127.0.0.1", Result{Failure, fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", closed)}},
	} {
		got, err := Run(t.Context(), Plan{TCP: &test.address, TimeoutSeconds: 10}, Target{PodIP: test.podIP})
		if err != nil || got != test.want {
			t.Errorf("%s: %v %v", test.name, got, err)
		}
	}
	got, err := runTCP(t.Context(), TCP{Port: open}, "127.0.0.1", time.Nanosecond)
	if err != nil || got.Outcome != Failure || !strings.HasSuffix(got.Output, "i/o timeout") {
		t.Errorf("no time: %v %v", got, err)
	}
}
