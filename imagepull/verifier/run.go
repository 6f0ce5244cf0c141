package verifier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podrun/podrun/internal/output"
)

const (
	// Timeout limits the time of one program.
	Timeout = 30 * time.Second
	// maxReason limits the output of a program, in bytes.
	maxReason = 4 << 10
	// mediaType is the type of the standard input of a program.
	mediaType = "application/vnd.oci.descriptor.v1+json"
)

// Image is what the programs verify.
type Image struct {
	Name string // the full name: docker.io/library/web:1
	// the descriptor of the manifest or index to which the name refers
	MediaType string
	Digest    string
	Size      int64
}

// descriptor is an image's descriptor as in the OCI image specification.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// Verify runs the programs one after the other. It returns nil if all of them accept the image. If not, or if ctx ends,
// the error names the first program that does not accept it, with the reason that it printed.
func (p Programs) Verify(ctx context.Context, i Image) error {
	if len(p.paths) == 0 {
		return errors.New("no image verifiers")
	}
	if i.Name == "" || i.Digest == "" {
		return errors.New("the image has no name and digest to verify")
	}
	for _, path := range p.paths {
		if err := run(ctx, path, i); err != nil {
			return fmt.Errorf("image verifier %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// run runs a program. The error contains the reason that the program printed.
func run(ctx context.Context, path string, i Image) error {
	in, err := json.Marshal(descriptor{i.MediaType, i.Digest, i.Size})
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	c := exec.CommandContext(bounded, path, "-name", i.Name, "-digest", i.Digest, "-stdin-media-type", mediaType)
	c.Env, c.Dir, c.Stdin = environment(os.Environ()), "/", bytes.NewReader(in)
	stdout, stderr := &output.Head{Limit: maxReason}, &output.Head{Limit: maxReason}
	c.Stdout, c.Stderr = stdout, stderr
	// Programs that it has started end, too.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err = c.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		return fmt.Errorf("it did not end within %s", Timeout)
	case errors.Is(err, exec.ErrWaitDelay):
		_ = c.Cancel() // the process group still exists
		return errors.New("a program that it has started did not end")
	}
	if reason := reasonIn(stdout.String(), stderr.String()); reason != "" {
		return fmt.Errorf("denied (%w): %s", err, reason)
	}
	return fmt.Errorf("denied (%w)", err)
}

// reasonIn returns the reason in the output of a program, in one line.
func reasonIn(stdout, stderr string) string {
	text := strings.TrimSpace(stdout)
	if text == "" {
		text = strings.TrimSpace(stderr)
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
}

// inherited are the variables that programs inherit, so that they can reach registries.
var inherited = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// environment returns the variables of a program. A program must decide in the same way whoever runs podrun.
func environment(own []string) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	for _, v := range own {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(inherited, name) {
			env = append(env, v)
		}
	}
	return env
}
