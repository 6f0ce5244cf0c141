package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/output"
)

// Manager provides access to systemd through systemctl.
type Manager interface {
	// Booted reports whether systemd manages this host, like sd_booted(3).
	Booted() bool
	// Run runs systemctl with arguments and returns its standard output. The error
	// contains the arguments and systemctl's message.
	Run(ctx context.Context, args ...string) ([]byte, error)
}

// Systemctl is the Manager of this host.
type Systemctl struct {
	User bool // the manager of the user who runs podrun, instead of the host's
}

// Booted checks whether the directory that systemd creates first exists.
func (Systemctl) Booted() bool {
	return hostfile.IsDir("/run/systemd/system")
}

// programDirs are the directories in which podrun searches for systemctl if it is not in PATH. A
// device's init program or a cron job may have no PATH.
var programDirs = []string{"/usr/bin", "/bin"}

// find returns the path of systemctl. If systemctl is not installed, the error is
// exec.ErrNotFound.
func find() (string, error) {
	path, err := exec.LookPath("systemctl")
	for _, dir := range programDirs {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, "systemctl"))
	}
	if err != nil {
		return "", exec.ErrNotFound
	}
	return path, nil
}

// maxOutput is the maximum number of bytes of systemctl's output that podrun keeps.
const maxOutput = 64 << 10

// Run runs systemctl until it exits or ctx ends.
func (s Systemctl) Run(ctx context.Context, args ...string) ([]byte, error) {
	path, err := find()
	if err != nil {
		return nil, errors.New("systemctl is not installed")
	}
	if s.User {
		args = append([]string{"--user"}, args...)
	}
	c := exec.CommandContext(ctx, path, append([]string{"--no-pager", "--no-ask-password"}, args...)...)
	c.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
	c.WaitDelay = time.Second
	stdout, stderr := output.Head{Limit: maxOutput}, output.Head{Limit: maxOutput}
	c.Stdout = &stdout
	c.Stderr = &stderr
	err = c.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if said := strings.TrimSpace(stderr.String()); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return nil, fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
}
