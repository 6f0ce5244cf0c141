package critest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest/ash"
)

// ExecSync implements the CRI. After the timeout, it kills the command. The call then fails with
// DeadlineExceeded, or returns exit code -1 if Profile.ExecExpires is set.
func (rt *Runtime) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	rt.mu.Lock()
	c, err := rt.findContainer(r.GetContainerId())
	if err != nil {
		rt.mu.Unlock()
		return nil, rt.options.profile.noContainer(r.GetContainerId(), "failed to exec in container: ")
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		defer rt.mu.Unlock()
		return nil, rt.options.profile.notRunning(c, "failed to exec in container: ")
	}
	p := c.process
	answer := rt.scriptedExec(c, r.GetCmd())
	rt.mu.Unlock()

	limited := ctx
	timeout := time.Duration(r.GetTimeout()) * time.Second
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	// The command is also killed when the container exits.
	running, stop := context.WithCancelCause(limited)
	defer context.AfterFunc(p.ctx, func() { stop(errContainerGone) })()
	defer stop(nil)

	var resp *runtimeapi.ExecSyncResponse
	if answer != nil {
		resp, err = answer.run(running)
	} else {
		resp, err = rt.execute(running, c, r.GetCmd())
	}
	if ctx.Err() == nil && limited.Err() != nil && rt.options.profile.ExecExpires {
		return &runtimeapi.ExecSyncResponse{Stderr: []byte("command timed out"), ExitCode: -1}, nil
	}
	if ctx.Err() == nil && limited.Err() != nil {
		return nil, status.Errorf(codes.DeadlineExceeded, "failed to exec in container: timeout %v exceeded: context deadline exceeded", timeout)
	}
	return resp, err
}

var errContainerGone = errors.New("container gone")

func (rt *Runtime) scriptedExec(c *container, cmd []string) *Exec {
	for _, name := range c.keys() {
		if answer := rt.execs[name]; answer != nil {
			return answer(cmd)
		}
	}
	return nil
}

func (e *Exec) run(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
	timer := time.NewTimer(e.After)
	defer timer.Stop()
	code := e.ExitCode
	select {
	case <-timer.C:
	case <-ctx.Done():
		code = 137
	}
	if e.Err != nil {
		return nil, e.Err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: []byte(e.Stdout), Stderr: []byte(e.Stderr), ExitCode: code}, nil
}

// execute runs a command with the shell.
func (rt *Runtime) execute(ctx context.Context, c *container, cmd []string) (*runtimeapi.ExecSyncResponse, error) {
	if !ash.Known(cmd) {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		return nil, status.Error(codes.Unknown, rt.notExecutable(c, "exec", cmd).Error())
	}
	var stdout, stderr bytes.Buffer
	proc := rt.ashProcess(c, cmd)
	proc.Stdin, proc.Stdout, proc.Stderr = nil, &stdout, &stderr
	code := ash.Run(ctx, proc)
	return &runtimeapi.ExecSyncResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: int32(code)}, nil
}
