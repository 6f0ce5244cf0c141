package volume

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	mountutils "k8s.io/mount-utils"

	"github.com/podrun/podrun/internal/safepath"
)

// mountFunc mounts a network file system.
type mountFunc func(ctx context.Context, source, target, fstype string, options []string) error

// makeNFS mounts the export with the given function, unless it is already mounted.
func makeNFS(ctx context.Context, v Volume, n *NFS, mount mountFunc) error {
	mounted, err := safepath.IsMountPoint(ctx, v.HostPath)
	if err != nil || mounted {
		return err
	}
	if err := makeMountPoint(v.HostPath); err != nil {
		return err
	}
	var options []string
	if n.ReadOnly {
		options = append(options, "ro")
	}
	if err := mount(ctx, n.source(), v.HostPath, "nfs", append(options, n.Options...)); err != nil {
		return fmt.Errorf("mount %s: %w", n.source(), err)
	}
	return nil
}

// mountByProgram runs mount(8) because mount.nfs, which mount(8) runs, is the only
// implementation of the negotiation with the server. Like the kubelet, it uses a systemd
// scope on a host with systemd, so that daemons that mount.nfs starts (rpc.statd) outlive
// podrun. It does not call mount-utils to mount, because that package takes no context: a server
// that does not respond would block the call forever.
func mountByProgram(ctx context.Context, source, target, fstype string, options []string) error {
	program, args := "mount", mountutils.MakeMountArgs(source, target, fstype, options)
	if inSystemd(ctx) {
		program, args = mountutils.AddSystemdScope("systemd-run", target, program, args)
	}
	out, err := runProgram(ctx, program, args...)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the server did not answer: %w", context.Cause(ctx))
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// inSystemd reports whether systemd-run works: it may be installed on a system that does not
// run systemd, such as a container.
func inSystemd(ctx context.Context) bool {
	if _, err := exec.LookPath("systemd-run"); err != nil {
		return false
	}
	_, err := runProgram(ctx, "systemd-run", "--description=podrun systemd probe", "--scope", "true")
	return err == nil
}

// programEnd is how long podrun waits for the exit of a program that it has killed. After that, it
// leaves the program behind: it is blocked in the kernel and cannot be killed.
const programEnd = 2 * time.Second

// runProgram runs a program and returns its output. When ctx ends, it kills the program and
// its children: killing only mount would leave mount.nfs running.
func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return os.ErrProcessDone
		}
		return nil
	}
	cmd.WaitDelay = programEnd // a daemon may keep the output pipe open
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(programEnd)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.out, r.err
	case <-timer.C:
		return nil, context.Cause(ctx)
	}
}
