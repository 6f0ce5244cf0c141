package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/ring"
)

// A script runs about 30 commands of podrun, and the start of a process takes as much CPU time as most of them.
// In ring 1, the scripts on the fake runtime therefore run their commands in sessions. A session is a process
// that runs commands one after the other, each with its own arguments, environment, directory and standard
// streams. A command that leaves goroutines or open files behind ends its session, with the command's exit code,
// so that no state of it reaches the next command. In the outer rings, each command is a process.
//
// Commands in the background, commands with input, commands of other users and commands of shell scripts are
// processes in all rings.

// sessionName is the first argument of a process that is a session.
const sessionName = "podrun-session"

// request is a command for a session. The session receives the three standard streams of the command with it.
type request struct {
	Args, Env []string
	Dir       string
}

// session is a process that runs commands.
type session struct {
	process *exec.Cmd
	conn    *net.UnixConn
}

// newSession starts a session.
func newSession(program string) (*session, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "session"), os.NewFile(uintptr(fds[1]), "session")
	defer ours.Close()
	defer theirs.Close()
	s := &session{process: &exec.Cmd{Path: program, Args: []string{sessionName}, Dir: "/", ExtraFiles: []*os.File{theirs}}}
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	s.conn = c.(*net.UnixConn)
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(err, s.conn.Close())
	}
	return s, nil
}

// run runs a command, and returns its exit code. It reports whether the session has ended.
func (s *session) run(r request, stdin, stdout, stderr *os.File) (code exitCode, ended bool, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return 0, false, err
	}
	rights := unix.UnixRights(int(stdin.Fd()), int(stdout.Fd()), int(stderr.Fd()))
	if _, _, err := s.conn.WriteMsgUnix(data, rights, nil); err != nil {
		return 0, false, err
	}
	answer := make([]byte, 1)
	if n, err := s.conn.Read(answer); err == nil && n == 1 {
		return exitCode(answer[0]), false, nil
	}
	return codeOf(s.close())
}

// codeOf returns the exit code of a command that ended its session.
func codeOf(err error) (exitCode, bool, error) {
	exited, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0, true, nil
	case ok && exited.Exited():
		return exitCode(exited.ExitCode()), true, nil
	}
	return 0, true, err
}

// close ends the session.
func (s *session) close() error {
	return errors.Join(s.conn.Close(), s.process.Wait())
}

// exitCode is the exit code of a command that ran in a session.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// podrun ARG... runs podrun, and fails if podrun fails. ! podrun fails if podrun succeeds. 'exec podrun' starts a
// process in all rings.
func podrun(ts *testscript.TestScript, neg bool, args []string) {
	err := execute(ts, "podrun", args)
	switch {
	case err == nil && neg:
		ts.Fatalf("unexpected command success")
	case err != nil && !neg:
		ts.Fatalf("unexpected command failure: %v", err)
	}
}

// execute runs a command like ts.Exec, and podrun in the script's session if the script has one.
func execute(ts *testscript.TestScript, name string, args []string) error {
	s := of(ts)
	if name != "podrun" || !s.sessions || hasInput(ts) {
		return ts.Exec(name, args...)
	}
	stdout, stderr, err := s.podrun(ts, args)
	fmt.Fprint(ts.Stdout(), stdout)
	fmt.Fprint(ts.Stderr(), stderr)
	return err
}

// podrun runs podrun in the script's session. It returns the output, and an exitCode or an *exec.ExitError if the
// command fails.
func (s *script) podrun(ts *testscript.TestScript, args []string) (stdout, stderr string, err error) {
	program, err := exec.LookPath("podrun")
	if err != nil {
		return "", "", err
	}
	if s.session == nil {
		if s.session, err = newSession(program); err != nil {
			return "", "", err
		}
	}
	var files [3]*os.File // of the command
	var out [2]*os.File
	var text [2]strings.Builder
	var in *os.File
	files[0], in, err = os.Pipe()
	if err != nil {
		return "", "", err
	}
	in.Close()
	var readers sync.WaitGroup
	for i := range out {
		if out[i], files[i+1], err = os.Pipe(); err != nil {
			return "", "", err
		}
		readers.Go(func() { io.Copy(&text[i], out[i]) })
	}
	dir := ts.MkAbs(".")
	code, ended, err := s.session.run(request{Args: args, Env: append(environment(ts), "PWD="+dir), Dir: dir}, files[0], files[1], files[2])
	if ended {
		s.session = nil
	}
	for _, f := range files {
		f.Close()
	}
	readers.Wait()
	for _, f := range out {
		f.Close()
	}
	if err == nil && code != 0 {
		err = code
	}
	return text[0].String(), text[1].String(), err
}

// environment returns the variables of a script. testscript has no function for this.
func environment(ts *testscript.TestScript) (vars []string) {
	for _, v := range reflect.ValueOf(ts).Elem().FieldByName("env").Seq2() {
		vars = append(vars, v.String())
	}
	return vars
}

// hasInput reports whether the script defines the standard input or the terminal of the next command.
func hasInput(ts *testscript.TestScript) bool {
	s := reflect.ValueOf(ts).Elem()
	return s.FieldByName("stdin").String() != "" || s.FieldByName("ttyin").String() != ""
}

// serveSession is the main function of a session.
func serveSession() int {
	f := os.NewFile(3, "session")
	c, err := net.FileConn(f)
	if err != nil {
		return fail(err)
	}
	f.Close()
	conn := c.(*net.UnixConn)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1) // starts the goroutine of package signal
	signal.Reset()
	files, goroutines := openFiles(), runtime.NumGoroutine()
	for { // the commands
		code, ok := serveCommand(conn)
		if !ok {
			return code
		}
		signal.Reset()
		if !clean(files, goroutines) {
			return code
		}
		// The harness reads the output until no process has it open.
		if err := setStreams([]int{-1, -1, -1}); err != nil {
			return fail(err)
		}
		if _, err := conn.Write([]byte{byte(code)}); err != nil {
			return fail(err)
		}
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "session:", err)
	return 125
}

// serveCommand reads and runs a command. It returns false and the session's exit code if there is none.
func serveCommand(conn *net.UnixConn) (code int, ok bool) {
	data, rights := make([]byte, 1<<18), make([]byte, unix.CmsgSpace(3*4))
	n, nr, _, _, err := conn.ReadMsgUnix(data, rights)
	if err != nil || n == 0 {
		return 0, false
	}
	began := time.Now()
	var r request
	if err := json.Unmarshal(data[:n], &r); err != nil {
		return fail(err), false
	}
	messages, err := unix.ParseSocketControlMessage(rights[:nr])
	if err != nil || len(messages) != 1 {
		return fail(fmt.Errorf("%d messages: %w", len(messages), err)), false
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err == nil {
		err = setStreams(fds)
	}
	if err == nil {
		err = os.Chdir(r.Dir)
	}
	if err != nil {
		return fail(err), false
	}
	os.Clearenv()
	for _, v := range r.Env {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return fail(err), false
		}
	}
	os.Args = append([]string{"podrun"}, r.Args...)
	return runPodrun(r.Args, began), true
}

// setStreams replaces the standard streams, and closes the given files. -1 is /dev/null.
func setStreams(fds []int) error {
	for i, fd := range fds {
		if fd < 0 {
			null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			fd = null
		}
		if err := unix.Dup3(fd, i, 0); err != nil {
			return err
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// clean reports whether a command has closed its files and ended its goroutines. Goroutines end after the
// function that closes their connection has returned. On a busy machine, this may take longer than clean
// waits. The session then ends, which costs time only.
func clean(files, goroutines int) bool {
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for i := range 120 {
		if runtime.NumGoroutine() <= goroutines && openFiles() <= files {
			return true
		}
		if i < 100 {
			runtime.Gosched()
		} else {
			<-pause.C
		}
	}
	return false
}

// openFiles returns the number of the process's open files, without the directory of the cgroups, which
// opencontainers/cgroups opens once in a process.
func openFiles() int {
	entries, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return -1
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(e); err == nil && to != "/sys/fs/cgroup" {
			n++
		}
	}
	return n
}

// runPodrun runs a command line of podrun in this process, or one of the commands of TestSession.
func runPodrun(args []string, began time.Time) int {
	switch strings.Join(args, " ") {
	case "leave-goroutine":
		go func() { select {} }()
		return 3
	case "leave-file":
		if _, err := unix.Dup(0); err != nil {
			return fail(err)
		}
		return 3
	case "panic":
		panic("on purpose")
	}
	return cmd.Main(context.Background(), args, cmd.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "devel", began)
}

// TestSession checks that a session runs each command with its own arguments, variables and directory, and that
// a command that panics or leaves something behind ends its session.
func TestSession(t *testing.T) {
	ring.RequireRoot(t)
	t.Parallel()
	h := newFakeHarness(t, critest.Containerd())
	h.sessions = true
	params := h.only("session")
	params.Cmds = maps.Clone(commands)
	last := 0
	params.Cmds["process"] = func(ts *testscript.TestScript, neg bool, args []string) {
		want(ts, neg, args, 1, "process new|same")
		s := of(ts)
		same := func() bool {
			_, _, err := s.podrun(ts, []string{"version", "--client"})
			ts.Check(err)
			before := last
			if last = 0; s.session != nil {
				last = s.session.process.Process.Pid
			}
			return last != 0 && last == before
		}
		if args[0] == "same" {
			// On a busy machine, a session may also end after a command that left nothing behind.
			ts.Check(s.until(same))
		} else if same() {
			ts.Fatalf("the process is the same")
		}
	}
	result := &recorded{}
	testscript.RunT(result, params)
	if result.failed {
		t.Fatal(result.log.String())
	}
}
