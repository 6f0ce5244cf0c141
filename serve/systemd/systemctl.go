package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Manager is systemd, by systemctl.
type Manager interface {
	// Booted reports whether systemd runs this host, as sd_booted(3) does.
	Booted() bool
	// Run runs systemctl with arguments and returns its standard output. The error
	// contains the arguments and systemctl's message.
	Run(ctx context.Context, args ...string) ([]byte, error)
}

// Systemctl is the Manager of this host.
type Systemctl struct{}

// Booted looks for the directory that systemd makes first.
func (Systemctl) Booted() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// programDirs are the directories in which systemctl is searched for if PATH does not have
// it: the environment of a device's init program, or of a cron job, may have no PATH.
var programDirs = []string{"/usr/bin", "/bin"}

// find returns the path of systemctl. The error is exec.ErrNotFound if it is not installed.
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

// maxOutput limits how much of systemctl's output is kept, in bytes.
const maxOutput = 64 << 10

// Run runs systemctl until it ends or the context does.
func (Systemctl) Run(ctx context.Context, args ...string) ([]byte, error) {
	path, err := find()
	if err != nil {
		return nil, errors.New("systemctl is not installed")
	}
	c := exec.CommandContext(ctx, path, append([]string{"--no-pager", "--no-ask-password"}, args...)...)
	c.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
	c.WaitDelay = time.Second
	var stdout, stderr limited
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	if err == nil {
		return stdout.kept.Bytes(), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if said := strings.TrimSpace(stderr.kept.String()); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return nil, fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
}

// limited keeps the first maxOutput bytes. The buffer is no embedded field: its
// ReadFrom would keep them all.
type limited struct{ kept bytes.Buffer }

// Write accepts all of p, so that the process is not blocked.
func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - l.kept.Len(); room > 0 {
		l.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
