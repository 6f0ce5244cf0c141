package userns

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
)

// Names of the programs in the directory bin of an unpacked archive.
const (
	keeper = "podrun-rootless"
	enter  = "podrun-enter"
)

// startWithin limits the start of podrun-rootless, which takes some 10 ms.
const startWithin = time.Minute

// Options are the parameters of Start.
type Options struct {
	RunDir string
	Bin    string   // the directory of the programs
	Inside *Process // of existing namespaces; nil to create new ones
	// AllowMetadata permits pods to connect to the metadata service of a cloud, 169.254.169.254.
	AllowMetadata bool
	// Delegation is the cgroup of pods, which podrun-rootless records. If there is one, podrun-rootless is a service of
	// the user's systemd manager.
	Delegation Delegation
}

// Ready is the line that podrun-rootless writes when it is ready, or when it fails.
type Ready struct {
	Ready    bool   `json:"ready"`
	SingleID bool   `json:"singleID"`
	Error    string `json:"error"`
	Hint     string `json:"hint"`
	Reason   string `json:"reason"`
}

// MakeRunDir creates the run directory. In /tmp, another user could have created it.
func MakeRunDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Lstat(dir, &st)
	}
	if err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "run directory", Err: err, Hint: "set XDG_RUNTIME_DIR to a directory that belongs to you"}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return &problem.Error{Kind: problem.Runtime, Object: "run directory " + dir,
			Err:  fmt.Errorf("has owner %d and mode %03o, but must be a directory with owner %d and mode 700", st.Uid, st.Mode&0o7777, os.Geteuid()),
			Hint: "remove it, or set XDG_RUNTIME_DIR to a directory that belongs to you"}
	}
	return nil
}

// Start starts podrun-rootless, or waits for the one that another podrun process is starting, and returns when it is
// ready. The error is of kind Runtime.
func Start(ctx context.Context, o Options) (Ready, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	from, to, err := os.Pipe()
	if err != nil {
		return Ready{}, failed(err, "")
	}
	defer from.Close()
	started := o.spawn(ctx, to)
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Unix(1, 0)) }) // ends the read
	defer stop()
	line, err := bufio.NewReader(from).ReadString('\n')
	var ready Ready
	switch {
	case err == nil:
	case started != nil:
		return ready, failed(started, "")
	case ctx.Err() != nil:
		return ready, failed(fmt.Errorf("it is not ready: %w", context.Cause(ctx)), "")
	default:
		return ready, failed(errors.New("it exited: "+o.lastWords()), "")
	}
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		return ready, failed(fmt.Errorf("its answer is invalid: %w", err), "")
	}
	if !ready.Ready {
		return ready, failed(errors.New(ready.Error), ready.Hint)
	}
	return ready, nil
}

func failed(err error, hint string) error {
	if hint == "" {
		hint = "run 'podrun doctor' to check what this host lacks for an ordinary user, or use sudo"
	}
	return &problem.Error{Kind: problem.Runtime, Object: keeper, Op: "start it", Err: err, Hint: hint}
}

// log is the file with the messages of podrun-rootless.
func (o Options) log() string { return filepath.Join(o.RunDir, "rootless.log") }

// maxWords limits the text of the log in an error, in bytes.
const maxWords = 2048

// lastWords returns the end of the log.
func (o Options) lastWords() string {
	data, _ := os.ReadFile(o.log()) // without the log, there is no reason to show
	text := strings.TrimSpace(string(data))
	return text[max(0, len(text)-maxWords):]
}

// spawn starts the process. It closes the pipe's end.
func (o Options) spawn(ctx context.Context, to *os.File) error {
	defer to.Close()
	argv := o.command()
	if o.Delegation.Cgroup != "" {
		err := o.startUnit(ctx, argv, to)
		if err == nil || o.Inside == nil {
			return err
		}
		// The manager has ended since the first start. Containers need podrun-rootless nevertheless.
	}
	return o.spawnProcess(argv, to)
}

func (o Options) command() []string {
	argv := []string{filepath.Join(o.Bin, keeper)}
	if o.Inside != nil {
		argv = append(rootless.EnterArgs(filepath.Join(o.Bin, enter), o.Inside.PID, o.Inside.StartTime, argv[0], nil), "--inside")
	}
	argv = append(argv, "--run-dir", o.RunDir, "--bin", o.Bin, "--cgroup="+o.Delegation.Cgroup, "--no-cgroups="+o.Delegation.Reason)
	if o.AllowMetadata {
		argv = append(argv, "--allow-metadata")
	}
	return argv
}

// spawnProcess starts the process in a separate session.
func (o Options) spawnProcess(argv []string, to *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	log, err := os.OpenFile(o.log(), os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: "/", Env: environment(), Files: []*os.File{null, null, log, to}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return err
	}
	go func() { _, _ = p.Wait() }() // reaps it; a process that exits closes the pipe
	return nil
}

// environment returns the environment of podrun-rootless, which searches for newuidmap and newgidmap in PATH.
func environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if path := os.Getenv("PATH"); path != "" {
		env[0] += ":" + path
	}
	return env
}

// RemoveFiles removes the files of a podrun-rootless that has ended, and the run directory if it is empty. It must be
// called in the namespaces: the network namespace is mounted only there.
func RemoveFiles(runDir, netns string) error {
	err := unix.Unmount(netns, unix.MNT_DETACH)
	if err == unix.EINVAL || err == unix.ENOENT {
		err = nil // not mounted
	}
	var errs []error
	if err != nil {
		errs = append(errs, &os.PathError{Op: "unmount", Path: netns, Err: err})
	}
	for _, name := range []string{netns, "rootless.json", "rootless.lock", "rootless.log", "ports.json", "ports.sock", "podrun-net"} {
		path := name
		if !filepath.IsAbs(name) {
			path = filepath.Join(runDir, name)
		}
		if err := os.RemoveAll(path); err != nil {
			errs = append(errs, err)
		}
	}
	for _, dir := range []string{"cgroups", "secrets", "serve", "api", "."} {
		_ = unix.Rmdir(filepath.Join(runDir, dir)) // another process uses a directory that is not empty
	}
	return errors.Join(errs...)
}
