package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/ring"
)

func TestSystemHint(t *testing.T) {
	wrote := func(errno syscall.Errno) error {
		return &problem.Error{Kind: problem.Runtime, Object: "pod default/web", Op: "write the checkpoint", Err: &fs.PathError{Op: "write", Path: "/var/lib/podrun/x", Err: errno}}
	}
	for name, tc := range map[string]struct {
		err                  error
		inodes, unprivileged bool
		want                 string // the prefix of the hint
	}{
		"full":          {err: wrote(unix.ENOSPC), want: "the disk is full: free space on the file system of /var/lib/podrun/x ('podrun image prune --all'"},
		"inodes":        {err: wrote(unix.ENOSPC), inodes: true, want: "the file system of /var/lib/podrun/x has no free inodes"},
		"output":        {err: &fs.PathError{Op: "write", Path: "/dev/stdout", Err: unix.ENOSPC}, inodes: true, want: "the file or device that receives podrun's output is full"},
		"quota":         {err: wrote(unix.EDQUOT), want: "the disk quota is used up"},
		"read-only":     {err: wrote(unix.EROFS), want: "the file system of /var/lib/podrun/x is mounted read-only"},
		"files":         {err: wrote(unix.EMFILE), want: "increase the limit of open files"},
		"not root":      {err: wrote(unix.EACCES), unprivileged: true, want: "run as root"},
		"root":          {err: wrote(unix.EPERM), want: "root lacks a permission"},
		"the runtime's": {err: errors.New("failed to extract layer: write /var/lib/containerd/x: no space left on device"), want: "the disk is full: free space on the file system of this host"},
		"another":       {err: errors.New("no space left on device was the title of the page"), want: ""},
		"not found":     {err: wrote(unix.ENOENT), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := ""
			if e, ok := errors.AsType[*fs.PathError](tc.err); ok {
				path = e.Path
			}
			got := exit.SystemHint(tc.err, path, func(string) bool { return tc.inodes }, !tc.unprivileged)
			if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" || strings.Contains(got, "%s") {
				t.Errorf("%q, want %q…", got, tc.want)
			}
		})
	}
}

func TestHintTo(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: t.TempDir() + "/a/b", Err: unix.ENOSPC}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&problem.Error{Err: full, Hint: "its own"}, "its own"},
		{fmt.Errorf("pod a: %w", full), "the disk is full"},
		{problem.Refuse(problem.Manifest, problem.List{{Message: "m: permission denied"}}), ""}, // each problem has its own hint
		{errors.New("x"), ""},
		{&problem.Error{Kind: problem.Failed, Err: errors.New(`exec: "/etc": permission denied`)}, ""}, // in the container
		{&os.LinkError{Op: "rename", Old: "/a/x", New: "/a/y", Err: unix.EDQUOT}, "the disk quota is used up: increase it, or free space on the file system of /a/y"},
	} {
		if got := exit.HintFor(tc.err); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%v: %q, want %q…", tc.err, got, tc.want)
		}
	}
}

// TestExhaustedHost checks that the hint does not blame the file that could not be opened.
func TestExhaustedHost(t *testing.T) {
	for errno, want := range map[syscall.Errno]int{unix.EMFILE: exit.Runtime, unix.ENFILE: exit.Runtime, unix.ENOMEM: exit.Runtime, unix.EACCES: exit.Usage} {
		err := &problem.Error{Kind: problem.Usage, Object: "--config", Err: &fs.PathError{Op: "open", Path: "/etc/podrun/config.yaml", Err: errno}}
		if got := exit.Code(err); got != want {
			t.Errorf("%v: code %d, want %d", errno, got, want)
		}
	}
}

// TestInodesOut fills a real file system.
func TestInodesOut(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=3"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	if exit.IsOutOfInodes(filepath.Join(dir, "..", "none", "file")) {
		t.Skip("the file system of the tests is short of inodes")
	}
	var err error
	for i := 0; err == nil && i < 10; i++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("not full: %v", err)
	}
	if got := exit.HintFor(err); !strings.HasPrefix(got, "the file system of "+dir) {
		t.Error(got)
	}
}

// TestTroubleshootingInodes compares the page with the hint, because no test can exhaust the
// inodes of /var/lib/podrun.
func TestTroubleshootingInodes(t *testing.T) {
	const dir = "/var/lib/podrun/pods"
	err := fmt.Errorf("pod default/web: %w", &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOSPC})
	want := "    podrun: " + err.Error() + "\n    hint: " + exit.SystemHint(err, dir, func(string) bool { return true }, true) + "\n"
	if !strings.Contains(readPage(t, "../docs/troubleshooting.md"), want) {
		t.Errorf("docs/troubleshooting.md lacks\n%s", want)
	}
}
