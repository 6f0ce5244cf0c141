package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
)

// maxRecord limits the size of each of this package's files, in bytes.
const maxRecord = 1 << 20

// ReadChoice returns the recorded runtime of a root directory, or nil if none is recorded. It does
// not use the record of a newer podrun, which it may misread: the pods could then use two runtimes. Errors are of kind Runtime. ErrLostChoice
// means that podrun cannot use the file. After any other error, such as a lack of descriptors or permissions,
// the record may still be valid.
func ReadChoice(ctx context.Context, l Layout) (*Choice, error) {
	found := choiceFile.Examine(ctx, l.Choice())
	switch {
	case found.State == statefile.Absent:
		return nil, nil
	case found.State == statefile.Intact:
		return &found.Value, nil
	}
	out := &problem.Error{Kind: problem.Runtime, Op: "read the record of the container runtime", Err: found.Fault}
	switch {
	case errors.Is(found.Fault, fs.ErrPermission):
		out.Hint = "run as root"
	case !statefile.LacksResources(found.Fault):
		out.Err = lostChoice{found.Fault}
	}
	return nil, out
}

// ErrLostChoice means that podrun cannot use the record.
var ErrLostChoice = errors.New("the record is lost")

// lostChoice wraps an error so that it matches ErrLostChoice.
type lostChoice struct{ error }

func (e lostChoice) Is(target error) bool { return target == ErrLostChoice }
func (e lostChoice) Unwrap() error        { return e.error }

// ReadDaemon returns the process that was started last since the host was booted; nil if there
// is none. If podrun cannot use its record, ReadDaemon searches for a running process. It does not end with
// ctx: the record is in a tmpfs, which always responds, and the caller would take a missing result for a
// runtime that does not run.
func ReadDaemon(ctx context.Context, l Layout) *Daemon {
	ctx = context.WithoutCancel(ctx)
	boot, err := bootID(ctx)
	found := daemonFile.Examine(ctx, l.Daemon())
	switch {
	case err != nil, found.State == statefile.Intact && found.Value.BootID != boot:
		return nil
	case found.State == statefile.Intact:
		return &found.Value
	}
	return findDaemon(ctx, l, boot)
}

// Identify returns the identity of a running process, without an archive.
func Identify(ctx context.Context, pid int) (d Daemon, err error) {
	d = Daemon{SchemaVersion: schema, PID: pid}
	if d.BootID, err = bootID(ctx); err != nil {
		return d, err
	}
	_, d.StartTime, err = readStat(pid)
	return d, err
}

// findDaemon searches for containerd's process, whose record is lost; it returns nil if there is none.
func findDaemon(ctx context.Context, l Layout, boot string) *Daemon {
	// The runtime was not started since the boot if it has no state directory.
	if !hostfile.IsDir(l.State()) {
		return nil
	}
	running, err := readRunning(l)
	if err != nil {
		return nil // the start of another process reports it
	}
	for _, d := range running {
		line, err := os.ReadFile(procFile(d.PID, "cmdline"))
		argv := strings.Split(string(line), "\x00")
		if err == nil && d.Digest != "" && filepath.Base(argv[0]) == "containerd" && slices.Contains(argv, l.Config()) {
			d.SchemaVersion, d.BootID, d.Starting, d.found = schema, boot, !Listening(ctx, l), true
			return &d
		}
	}
	return nil
}

// RestoreDaemon writes the record of a process that ReadDaemon had to search for. It does nothing for others. The
// layout's lock must be held.
func RestoreDaemon(l Layout, d *Daemon) error {
	if !d.Unrecorded() {
		return nil
	}
	if err := d.write(l); err != nil {
		return err
	}
	d.found = false
	return nil
}

// Unrecorded reports whether the record of a running process is lost.
func (d *Daemon) Unrecorded() bool { return d != nil && d.found }

// bootID returns the ID of the current boot.
func bootID(ctx context.Context) (string, error) {
	data, err := hostfile.Read(ctx, "/proc/sys/kernel/random/boot_id", 128)
	return strings.TrimSpace(string(data)), err
}

// Alive reports whether the recorded process runs. A zombie counts as exited.
func (d *Daemon) Alive() bool {
	if d == nil {
		return false
	}
	state, started, err := readStat(d.PID)
	return err == nil && started == d.StartTime && state != "Z" && state != "X"
}

// readStat returns the state and the start time of a process (proc_pid_stat(5)).
func readStat(pid int) (state string, started uint64, err error) {
	data, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return "", 0, err
	}
	// The name is in parentheses, and may contain any characters.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	started, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0], started, err
}

// Listening reports whether a process accepts connections on the runtime's socket.
func Listening(ctx context.Context, l Layout) bool {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", l.Socket())
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was written
	return true
}

// UnpackedDigests lists the unpacked archives.
func UnpackedDigests(l Layout) ([]string, error) {
	entries, err := os.ReadDir(l.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && IsDigest(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}
