package critest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest/ash"
	"github.com/podrun/podrun/internal/wait"
)

// process is the running program of a container.
type process struct {
	ctx    context.Context // context that ends when the process exits
	cancel context.CancelCauseFunc
	term   wait.Signal
	done   chan struct{} // closed when the runtime has recorded the exit
	// input of the process; it is only read if the container's config requests stdin
	stdin  *io.PipeWriter
	output watchers
}

// watchers are the streams that are attached to a process.
type watchers struct {
	mu  sync.Mutex
	all map[*[2]io.Writer]bool // the attached pairs of stdout and stderr
}

// add attaches stdout and stderr until remove is called.
func (w *watchers) add(stdout, stderr io.Writer) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pair := &[2]io.Writer{stdout, stderr}
	if w.all == nil {
		w.all = map[*[2]io.Writer]bool{}
	}
	w.all[pair] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, pair)
	}
}

// tee returns a writer that writes to the log and to the attached streams.
func (w *watchers) tee(log io.Writer, stream int) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		w.mu.Lock()
		for pair := range w.all {
			// The error is ignored, because the client may have disconnected.
			_, _ = pair[stream].Write(p)
		}
		w.mu.Unlock()
		return log.Write(p)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// program implements a process.
type program func(ctx context.Context, term <-chan struct{}, stdin io.Reader, stdout, stderr io.Writer) exit

// end makes the process exit now, with the given result.
func (p *process) end(e exit) { p.cancel(e) }

// signal sends TERM.
func (p *process) signal() {
	p.term.Send()
}

func (e exit) Error() string { return fmt.Sprintf("%s (%d)", e.reason, e.code) }

// launch starts a container's program. The caller must hold rt.mu.
func (rt *Runtime) launch(c *container) error {
	if rt.closed {
		return errors.New("the runtime is closed")
	}
	run, err := c.run, error(nil)
	if run == nil {
		run, err = rt.programOf(c)
	}
	if err != nil {
		return err
	}
	c.log, err = openLog(c.logPath(), c.config.GetTty(), rt.options.profile)
	if err != nil {
		return fmt.Errorf("failed to create containerd task: failed to create container loggers: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	in, stdin := io.Pipe()
	p := &process{ctx: ctx, cancel: cancel, term: wait.NewSignal(), done: make(chan struct{}), stdin: stdin}
	c.process = p
	stdout, stderr := c.log.stream("stdout"), c.log.stream("stderr")
	rt.busy.Go(func() {
		context.AfterFunc(ctx, func() { in.Close() })
		e := run(ctx, p.term, in, p.output.tee(stdout, 0), p.output.tee(stderr, 1))
		in.Close()
		var forced exit
		if errors.As(context.Cause(ctx), &forced) {
			e = forced
		}
		stdout.end()
		stderr.end()
		c.log.close()
		rt.finished(c, e)
		close(p.done)
		cancel(e)
	})
	return nil
}

// programOf returns the program of a container. This is the scripted behavior or, if there is none,
// the container's command, which the shell runs. The caller must hold rt.mu.
func (rt *Runtime) programOf(c *container) (program, error) {
	if b, ok := rt.scripted(c); ok {
		if b.StartErr != "" {
			return nil, errors.New(b.StartErr)
		}
		return b.play, nil
	}
	args := c.args()
	if len(args) == 0 || len(c.config.GetCommand()) == 0 && len(c.image.Entrypoint) > 0 && !ash.Known(args) {
		return Behavior{Forever: true, CleanTERM: true}.play, nil
	}
	if !ash.Known(args) {
		return nil, rt.notExecutable(c, "create", args)
	}
	proc := rt.ashProcess(c, args)
	proc.Init = c.ownPIDs()
	return func(ctx context.Context, term <-chan struct{}, stdin io.Reader, stdout, stderr io.Writer) exit {
		if c.config.GetStdin() {
			proc.Stdin = stdin
		}
		proc.Stdout, proc.Stderr, proc.TERM = stdout, stderr, term
		return exited(int32(ash.Run(ctx, proc)))
	}, nil
}

// notExecutable returns the runtime's error for an operation, create or exec, whose program
// runc cannot run.
func (rt *Runtime) notExecutable(c *container, op string, args []string) error {
	why := rt.whyNot(c, args)
	switch {
	case op == "create" && rt.options.profile.crio():
		return errors.New("container create failed: " + printed("runc create failed", why))
	case op == "create":
		return fmt.Errorf("failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: %s: unknown", why)
	case rt.options.profile.crio():
		return fmt.Errorf("command error: %s, stdout: , stderr: , exit code -1", printed("exec failed", why))
	}
	return fmt.Errorf("failed to exec in container: failed to start exec %q: OCI runtime exec failed: exec failed: %s: unknown", digest(fmt.Sprint(args)), why)
}

// whyNot returns runc's message for a program that it cannot run.
func (rt *Runtime) whyNot(c *container, args []string) string {
	if len(args) == 0 {
		return "args must not be empty"
	}
	why := "executable file not found in $PATH"
	if name := args[0]; path.IsAbs(name) {
		files := rt.filesOf(c)
		why = fmt.Sprintf("stat %s: no such file or directory", name)
		if files.kind(name, files.place(name)) != 0 {
			why = "permission denied"
		}
	}
	return fmt.Sprintf("unable to start container process: exec: %q: %s", args[0], why)
}

// args combines command and args with those of the image, by the CRI's rule: if the config has
// a command, the image's arguments do not apply either.
func (c *container) args() []string {
	command, args := c.config.GetCommand(), c.config.GetArgs()
	if len(command) == 0 {
		command = c.image.Entrypoint
		if len(args) == 0 {
			args = c.image.Cmd
		}
	}
	return append(append([]string{}, command...), args...)
}

// ashProcess prepares a shell process for a command in a container.
func (rt *Runtime) ashProcess(c *container, args []string) ash.Process {
	sc := c.config.GetLinux().GetSecurityContext()
	p := ash.Process{
		Args: args, Env: c.env(rt.options.profile), Dir: c.config.GetWorkingDir(), Hostname: c.sandbox.hostname(),
		Files: rt.filesOf(c), UID: sc.GetRunAsUser().GetValue(), GID: sc.GetRunAsGroup().GetValue(),
	}
	if sc.GetRunAsUser() == nil {
		p.UID = c.image.uid()
	}
	return p
}

// ownPIDs reports whether the container has its own PID namespace, in which its program is process
// 1.
func (c *container) ownPIDs() bool {
	return c.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid() == runtimeapi.NamespaceMode_CONTAINER
}

// env returns the environment that the runtime and runc set for a process.
func (c *container) env(profile Profile) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if c.config.GetTty() || profile.SetsTERM {
		env = append(env, "TERM=xterm")
	}
	env = append(env, "HOSTNAME="+c.sandbox.hostname(), "HOME=/root")
	for _, e := range c.image.Env {
		env = override(env, e)
	}
	for _, e := range c.config.GetEnvs() {
		env = override(env, e.GetKey()+"="+string(e.GetValue()))
	}
	return env
}

// override sets a variable. If a variable with this name exists, override replaces it.
func override(env []string, variable string) []string {
	name, _, _ := strings.Cut(variable, "=")
	for i, e := range env {
		if strings.HasPrefix(e, name+"=") {
			env[i] = variable
			return env
		}
	}
	return append(env, variable)
}

// hostname returns the host name of the sandbox or, if it has none, of the host.
func (s *sandbox) hostname() string {
	if h := s.config.GetHostname(); h != "" {
		return h
	}
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
