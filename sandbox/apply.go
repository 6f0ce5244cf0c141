package sandbox

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
)

// Sandbox is a sandbox that Apply has created.
type Sandbox struct {
	ID  string   `json:"id"`
	IPs []string `json:"ips,omitempty"` // primary address first; empty if the pod uses the host's network
}

// Apply creates the log directory and the sandbox. Even if Apply returns an error, the sandbox may
// exist, because a runtime that exceeds the deadline continues to work. So the caller must register
// Remove before the call, and call Recover before another attempt. If the sandbox's ID is known,
// the result contains it, even if there is an error.
func Apply(ctx context.Context, client *cri.Client, p Plan) (Sandbox, error) {
	fail := func(op string, err error) error {
		return &problem.Error{Kind: problem.Runtime, Object: "pod " + p.ID.String(), Op: op, Err: err}
	}
	if err := hostfile.MakeDirs(p.Config.LogDirectory, 0o755); err != nil {
		return Sandbox{}, fail("create log directory", err)
	}
	answered, stop := cri.ExtendContext(ctx)
	id, err := client.RunPodSandbox(answered, p.Config, p.Handler)
	stop()
	if err != nil {
		return Sandbox{}, fail("create sandbox", err)
	}
	ips, err := addresses(ctx, client, p, id)
	if err != nil {
		return Sandbox{ID: id}, fail("read the addresses of sandbox "+id, err)
	}
	return Sandbox{ID: id, IPs: ips}, nil
}

// addresses reads the pod's IPs. It returns an error for a sandbox with a pod network but no
// address, because such a sandbox is unusable, and the kubelet creates another one.
func addresses(ctx context.Context, client *cri.Client, p Plan, id string) ([]string, error) {
	if p.HostNetwork {
		return nil, nil
	}
	status, err := client.PodSandboxStatus(ctx, id)
	if err != nil {
		return nil, err
	}
	ips := IPs(status)
	if len(ips) == 0 {
		return nil, errors.New("the runtime assigned none: check the runtime's CNI configuration")
	}
	return ips, nil
}

// Recover cleans up after Apply has failed with cause. It returns the attempt number for a retry.
// This is the next number if Recover has found and removed a sandbox of this attempt. It is also
// the next number if the runtime has reserved the name for a sandbox that it does not list
// (containerd issues 9947 and 12438). Otherwise, it is the same number, because CRI-O returns a
// sandbox that it has finished late for an identical request. Recover returns an error if it could
// not remove an object. The caller must not retry in that case.
func Recover(ctx context.Context, client *cri.Client, p Plan, cause error) (attempt uint32, err error) {
	removed, err := remove(ctx, client, p)
	if err != nil {
		return p.Attempt, fmt.Errorf("clean up before the retry: %w", err)
	}
	if removed > 0 || cri.Reserved(cause) {
		return p.Attempt + 1, nil
	}
	return p.Attempt, nil
}

// InDoubt reports whether the runtime may have created the sandbox, or may still create it,
// although Apply has failed with err. If so, a retry is useful.
func InDoubt(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || cri.Reserved(err) {
		return true
	}
	return status.Code(grpcCause(err)) == codes.DeadlineExceeded
}

// grpcCause returns the error in the chain of err that has the gRPC code.
func grpcCause(err error) error {
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Err()
	}
	return err
}
