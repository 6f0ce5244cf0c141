package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kubeprobe "k8s.io/kubernetes/pkg/probe"

	"github.com/podrun/podrun/internal/event"
)

// tries is the total number of attempts for a probe that could not be run; a failure is
// not retried.
const tries = 3

// maxOutput limits how much of a probe's response is kept, in bytes, as the kubelet does
// for a command's output and an HTTP response (pkg/probe/exec, pkg/probe/http). A gRPC
// status, which the kubelet keeps completely, may have 16 MiB.
const maxOutput = 10 << 10

// Exec runs a command in a container and waits for it, no longer than the
// timeout; the runtime ends the command then and answers DeadlineExceeded. An
// error is a command that did not run, or ran into the timeout.
type Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, code int32, err error)

// Target is the container of a probe, and how to reach it.
type Target struct {
	ContainerID string
	PodIP       string // the host's for a pod on the host's network
	Exec        Exec
}

// Run executes one probe. The error is why the probe could not be executed; the
// Result's Outcome is then the one named in the kubelet's event, and does not
// count.
func Run(ctx context.Context, p Plan, t Target) (Result, error) {
	if p.Problem != "" {
		return Result{Outcome: Unknown}, errors.New(p.Problem)
	}
	var result Result
	var err error
	for range tries {
		result, err = try(ctx, p, t)
		result.Output = event.CutBytes(result.Output, maxOutput)
		if ctx.Err() != nil {
			return Result{Outcome: Unknown}, context.Cause(ctx)
		}
		if err == nil {
			return result, nil
		}
	}
	return result, err
}

func try(ctx context.Context, p Plan, t Target) (Result, error) {
	switch {
	case p.HTTP != nil:
		return runHTTP(ctx, *p.HTTP, t.PodIP, p.timeout())
	case p.TCP != nil:
		return runTCP(ctx, *p.TCP, t.PodIP, p.timeout())
	case p.GRPC != nil:
		return runGRPC(ctx, *p.GRPC, t.PodIP, p.timeout())
	}
	return runExec(ctx, p.Exec, t, p.timeout())
}

// runExec runs a command: exit code 0 is a success, any other is a failure, and so is a
// command that exceeds the timeout (k/k#92464). It also handles a runtime that reports a
// timeout as an exit code, such as CRI-O.
func runExec(ctx context.Context, command []string, t Target, timeout time.Duration) (Result, error) {
	stdout, stderr, code, err := t.Exec(ctx, t.ContainerID, command, timeout)
	switch {
	case status.Code(err) == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		return Result{Failure, fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(command, " "), timeout)}, nil
	case err != nil:
		return Result{Outcome: Unknown}, err
	}
	output := string(stdout[:min(len(stdout), 2*maxOutput)]) + string(stderr[:min(len(stderr), 2*maxOutput)])
	if code != 0 {
		return Result{Failure, output}, nil
	}
	return Result{Success, output}, nil
}

// runTCP opens a connection and closes it. The kubelet's dialer does not leave
// the port in TIME_WAIT for a minute (k/k#89898).
func runTCP(ctx context.Context, a TCP, podIP string, timeout time.Duration) (Result, error) {
	address, err := addressOf(a.Host, podIP, a.Port)
	if err != nil {
		return Result{Outcome: Unknown}, err
	}
	dialer := kubeprobe.ProbeDialer()
	dialer.Timeout = timeout
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return Result{Failure, err.Error()}, nil
	}
	_ = conn.Close() // the port was open, which is all that the probe checks
	return Result{Outcome: Success}, nil
}

// addressOf joins a probe's host, or else the pod's IP, with a port. Without
// both it fails: an empty host would be this machine.
func addressOf(host, podIP string, port int) (string, error) {
	if host == "" {
		host = podIP
	}
	if host == "" {
		return "", errors.New("the pod has no IP to probe")
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}
