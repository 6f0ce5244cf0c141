package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
)

// maxRecord limits the size of each of this package's files, in bytes.
const maxRecord = 1 << 20

// ReadChoice returns the recorded runtime of a root directory, or nil if none is recorded.
// Errors are of kind Runtime. ErrLostChoice means that the file contains no valid record. After
// any other error, such as a lack of descriptors, the record may still be valid.
func ReadChoice(ctx context.Context, l Layout) (*Choice, error) {
	data, err := hostfile.ReadNoFollow(ctx, l.Choice(), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	hint := ""
	var c Choice
	if err == nil {
		if c, err = parseChoice(data); err == nil {
			return &c, nil
		}
		err = fmt.Errorf("%s: %w", l.Choice(), err)
		if !errors.Is(err, ErrNewerChoice) {
			err = lostChoice{err}
		}
	} else if errors.Is(err, hostfile.ErrNotRegular) || errors.Is(err, hostfile.ErrTooLarge) {
		err = lostChoice{err}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		hint = "run as root"
	case errors.Is(err, ErrNewerChoice):
		hint = "use the newer podrun that wrote it, or set the runtime with --runtime"
	}
	return nil, &problem.Error{Kind: problem.Runtime, Op: "read the record of the container runtime", Err: err, Hint: hint}
}

// ErrLostChoice means that the record was truncated, or is not a file.
var ErrLostChoice = errors.New("the record is lost")

// lostChoice wraps an error so that it matches ErrLostChoice.
type lostChoice struct{ error }

func (e lostChoice) Is(target error) bool { return target == ErrLostChoice }
func (e lostChoice) Unwrap() error        { return e.error }

// ReadDaemon returns the process that was started last since the host was booted; nil if there
// is none. It ignores a record that is corrupt or from another boot.
func ReadDaemon(ctx context.Context, l Layout) *Daemon {
	data, err := hostfile.ReadNoFollow(ctx, l.Daemon(), maxRecord)
	if err != nil {
		return nil
	}
	d := parseDaemon(data)
	if boot, err := bootID(ctx); d == nil || err != nil || d.BootID != boot {
		return nil
	}
	return d
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
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
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
