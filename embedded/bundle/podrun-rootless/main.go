// podrun-rootless keeps the namespaces in which podrun runs pods as an ordinary user: a user namespace
// U, a mount namespace M, and the node's network namespace N. It is the gateway of N, and it forwards
// host ports. podrun starts it; docs/design/rootless.md describes its files and protocols.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// The descriptors that the stages of the start pass on.
const (
	passedFD = 3 // the pipe for the line that reports the result; optional
	lockFD   = 4 // the lock of the run directory
	syncFD   = 5 // closed when the ID maps are set
)

// readyFD is the descriptor of the pipe: the standard output if systemd starts the first process.
var readyFD = passedFD

// options are the arguments.
type options struct {
	runDir, bin    string
	allowMetadata  bool
	inside         bool
	readyStdout    bool
	stage          string
	singleIDReason string
	cgroup         string
	noCgroups      string
}

// The stages of a start. The first one has no name.
const (
	stageWait  = "wait"  // in U and M, before the ID maps are set
	stageSetup = "setup" // as user 0 of U
)

// The main thread stays outside N: /proc/PID/ns/net must show the host's network namespace, and Go
// would start threads in the wrong one.
func init() { runtime.LockOSThread() }

func main() {
	for _, fd := range []int{passedFD, lockFD, syncFD} {
		unix.CloseOnExec(fd)
	}
	o, err := parseOptions(os.Args[1:])
	if err == nil {
		err = run(o)
	}
	if err != nil {
		report(failure(err))
		fmt.Fprintln(os.Stderr, "podrun-rootless:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("podrun-rootless", flag.ContinueOnError)
	flags.StringVar(&o.runDir, "run-dir", "", "the run directory")
	flags.StringVar(&o.bin, "bin", "", "the directory of podrun-enter")
	flags.BoolVar(&o.allowMetadata, "allow-metadata", false, "lets pods connect to the metadata service of the cloud")
	flags.BoolVar(&o.inside, "inside", false, "the process is in U and M already")
	flags.BoolVar(&o.readyStdout, "ready-stdout", false, "report the result on the standard output, not on descriptor 3")
	flags.StringVar(&o.cgroup, "cgroup", "", "the cgroup that is delegated to podrun, for the record")
	flags.StringVar(&o.noCgroups, "no-cgroups", "", "the reason why there is no such cgroup, for the record")
	flags.StringVar(&o.stage, "stage", "", "internal")
	flags.StringVar(&o.singleIDReason, "single-id-reason", "", "internal")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.runDir == "" || o.bin == "" || flags.NArg() > 0 {
		return o, errors.New("usage: podrun-rootless --run-dir DIR --bin DIR [--allow-metadata] [--inside]")
	}
	if o.readyStdout {
		readyFD = unix.Stdout
	}
	return o, nil
}

// arguments returns the arguments of a stage.
func (o options) arguments(stage string) []string {
	args := []string{"podrun-rootless", "--run-dir=" + o.runDir, "--bin=" + o.bin, "--stage=" + stage, "--single-id-reason=" + o.singleIDReason,
		"--cgroup=" + o.cgroup, "--no-cgroups=" + o.noCgroups}
	if o.allowMetadata {
		args = append(args, "--allow-metadata")
	}
	return args
}

func run(o options) error {
	switch o.stage {
	case stageWait:
		return awaitMaps(o)
	case stageSetup:
		return setup(o, os.NewFile(lockFD, "lock"))
	}
	if err := checkRunDir(o.runDir); err != nil {
		return err
	}
	if o.inside && os.Geteuid() != 0 {
		return &problem{reason: "Gone", err: errors.New("the process whose namespaces to enter has ended"), hint: "run the command again"}
	}
	running, lock, err := acquireLock(o)
	if err != nil {
		return err
	}
	if running != nil {
		report(running.message())
		return nil
	}
	if o.inside {
		return setup(o, lock)
	}
	return startNamespaces(o, lock)
}

// problem is an error with a reason for podrun.
type problem struct {
	reason, hint string
	err          error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// message is the line that podrun reads.
type message struct {
	Ready    bool   `json:"ready,omitempty"`
	SingleID bool   `json:"singleID,omitempty"`
	Error    string `json:"error,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

func failure(err error) message {
	m := message{Error: err.Error()}
	var p *problem
	if errors.As(err, &p) {
		m.Reason, m.Hint = p.reason, p.hint
	}
	return m
}

// report writes the line, and closes the pipe. An error has no effect: podrun has ended. Without a
// pipe, the descriptor may be one of the Go runtime.
func report(m message) {
	var st unix.Stat_t
	if err := unix.Fstat(readyFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(readyFD), "ready")
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}
