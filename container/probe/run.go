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
	"github.com/podrun/podrun/internal/podnetns"
)

// tries is the maximum number of attempts if a probe cannot run. podrun does not retry a probe that has run and
// failed.
const tries = 3

// maxOutput is the number of bytes that podrun keeps of a probe's output. The kubelet has the same
// limit for the output of a command and for an HTTP response (pkg/probe/exec, pkg/probe/http).
// Unlike podrun, the kubelet keeps a complete gRPC status, which may have 16 MiB.
const maxOutput = 10 << 10

// Exec runs a command in a container, and waits until the command exits. After the timeout, the
// runtime kills the command and returns DeadlineExceeded. An error means that the command did not
// run, or exceeded the timeout.
type Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, code int32, err error)

// Target is the container to probe, and how podrun reaches it.
type Target struct {
	ContainerID string
	// the pod's IP, or the host's if the pod uses the host's network
	PodIP string
	Exec  Exec
}

// Run runs one probe. If the probe could not run, it returns an error. In that case, the caller must use the Outcome
// of the Result only for the kubelet's event.
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

// runExec runs a command. Exit code 0 is a success, and any other exit code is a failure. A
// timeout is also a failure (k/k#92464); CRI-O reports it as an exit code.
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

// runTCP opens a connection and closes it. It uses the kubelet's dialer, which prevents the port
// from remaining in TIME_WAIT for a minute (k/k#89898).
func runTCP(ctx context.Context, a TCP, podIP string, timeout time.Duration) (Result, error) {
	address, err := addressOf(a.Host, podIP, a.Port)
	if err != nil {
		return Result{Outcome: Unknown}, err
	}
	dialer := kubeprobe.ProbeDialer()
	dialer.Timeout = timeout
	conn, err := podnetns.DialContext(ctx, dialer, "tcp", address)
	if err != nil {
		return Result{Failure, err.Error()}, nil
	}
	// the probe checks only that the port is open
	_ = conn.Close()
	return Result{Outcome: Success}, nil
}

// addressOf returns the address of a port on host or, if host is "", on the pod's IP. If both are
// empty, it returns an error, because an empty host would mean this machine.
func addressOf(host, podIP string, port int) (string, error) {
	if host == "" {
		host = podIP
	}
	if host == "" {
		return "", errors.New("the pod has no IP to probe")
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}
