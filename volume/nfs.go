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
	if err := checkError(n.problem()); err != nil {
		return err
	}
	if err := makeMountPoint(v.HostPath); err != nil {
		return err
	}
	var options []string
	if n.ReadOnly {
		options = append(options, "ro")
	}
	if err := mount(ctx, n.source(), v.HostPath, "nfs", append(options, splitOptions(n.Options)...)); err != nil {
		return fmt.Errorf("mount %s: %w", n.source(), err)
	}
	return nil
}

// mountByProgram runs mount(8), which runs mount.nfs. Only mount.nfs implements the negotiation
// with the server. On a host with systemd, it uses a systemd scope, like the kubelet, so that
// daemons that mount.nfs starts (rpc.statd) outlive podrun. It does not use the package
// mount-utils, whose functions take no context: if a server did not respond, the call would block
// forever.
func mountByProgram(ctx context.Context, source, target, fstype string, options []string) error {
	program, args := "mount", mountArgs(source, target, fstype, options)
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

// mountArgs returns the arguments of mount(8). Unlike mount-utils' MakeMountArgs, it puts the source
// and the target after "--": mount(8) then never interprets them as options.
func mountArgs(source, target, fstype string, options []string) []string {
	args := []string{"-t", fstype}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	return append(args, "--", source, target)
}

// inSystemd reports whether systemd-run works. It may be installed on a system that does not
// run systemd, such as a container.
func inSystemd(ctx context.Context) bool {
	if _, err := exec.LookPath("systemd-run"); err != nil {
		return false
	}
	_, err := runProgram(ctx, "systemd-run", "--description=podrun systemd probe", "--scope", "true")
	return err == nil
}

// programEnd is how long podrun waits for a killed program to exit. After that, podrun leaves the
// program behind, because the program is blocked in the kernel and cannot be killed.
const programEnd = 2 * time.Second

// runProgram runs a program and returns its output. When ctx ends, it kills the program and the
// program's children. If it killed only mount(8), mount.nfs would continue to run.
func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return os.ErrProcessDone
		}
		return nil
	}
	// A daemon may keep the output pipe open.
	cmd.WaitDelay = programEnd
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
