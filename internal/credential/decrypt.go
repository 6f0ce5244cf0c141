package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/output"
	"github.com/podrun/podrun/internal/rootless"
)

const (
	// maxSize limits the value of a credential, in bytes, as systemd and Kubernetes do.
	maxSize = 1 << 20
	// timeout limits the time of systemd-creds. A TPM takes less than a second.
	timeout = 30 * time.Second
)

// Store is a directory of encrypted credentials, and the program that decrypts them.
type Store struct{ Dir, Program string }

// Host is the store of this host.
var Host = Store{"/etc/credstore.encrypted", "systemd-creds"}

// Decrypt returns the value of a credential. Its error contains the output of systemd-creds, but not the value.
func (s Store) Decrypt(ctx context.Context, name string) ([]byte, error) {
	if !IsName(name) {
		return nil, fmt.Errorf("credential %q: not a valid name", name)
	}
	if rootless.User() {
		return nil, fmt.Errorf("credential %s: podrun as an ordinary user does not support credentials of the host", name)
	}
	path := filepath.Join(s.Dir, name)
	if info, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("credential %s: %w (seal it with 'systemd-creds encrypt --name=%s - %s')", name, err, name, path)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("credential %s: %s is not a regular file", name, path)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	inner, stop := context.WithCancel(bounded)
	defer stop()
	c := exec.CommandContext(inner, s.Program, "decrypt", "--name="+name, "--", path, "-")
	c.Env, c.Dir, c.WaitDelay = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "/", time.Second
	stdout, stderr := &output.Head{Limit: maxSize, OnCut: stop}, &output.Head{Limit: 4 << 10}
	c.Stdout, c.Stderr = stdout, stderr
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("credential %s: %s is not installed: credentials require systemd 250 or later", name, s.Program)
	case stdout.Cut():
		return nil, fmt.Errorf("credential %s: larger than %d MiB", name, maxSize>>20)
	case bounded.Err() != nil:
		return nil, fmt.Errorf("credential %s: systemd-creds did not end within %s", name, timeout)
	case err != nil:
		return nil, fmt.Errorf("credential %s: systemd-creds: %w: %s", name, err, strings.Join(strings.Fields(strings.ToValidUTF8(stderr.String(), "?")), " "))
	}
	return stdout.Bytes(), nil
}
