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

// tries is the total number of attempts for a probe that could not run. A failure is not
// retried.
const tries = 3

// maxOutput is the maximum size of a probe's output to keep, in bytes. The kubelet has the same
// limit for a command's output and an HTTP response (pkg/probe/exec, pkg/probe/http), but keeps a
// complete gRPC status, which may have 16 MiB.
const maxOutput = 10 << 10

// Exec runs a command in a container and waits until it exits. After the timeout, the runtime kills
// the command and returns DeadlineExceeded. An error means that the command did not run, or
// exceeded the timeout.
type Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, code int32, err error)

// Target is the container to probe, and how to reach it.
type Target struct {
	ContainerID string
	PodIP       string // the host's IP in the host network
	Exec        Exec
}

// Run runs one probe. It returns an error if the probe could not run; the Result's Outcome
// is then only the one named in the kubelet's event, and must be ignored.
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

// runExec runs a command: exit code 0 is a success; any other exit code is a failure, and so is
// exceeding the timeout (k/k#92464), which CRI-O reports as an exit code.
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

// runTCP opens a connection and closes it. The kubelet's dialer prevents the port from staying in
// TIME_WAIT for a minute (k/k#89898).
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
	_ = conn.Close() // the probe only checks that the port is open
	return Result{Outcome: Success}, nil
}

// addressOf returns the address of the host, or of the pod's IP if host is "". It returns an error
// if both are empty, because an empty host would mean this machine.
func addressOf(host, podIP string, port int) (string, error) {
	if host == "" {
		host = podIP
	}
	if host == "" {
		return "", errors.New("the pod has no IP to probe")
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}
