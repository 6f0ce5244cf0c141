package volume

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// fakeMount adds a fake mount(8), which runs the given script, to PATH.
func fakeMount(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(dir+"/mount", []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"sleep", "cat"} { // PATH does not contain systemd-run
		for _, bin := range []string{"/bin/", "/usr/bin/"} {
			if _, err := os.Stat(bin + tool); err == nil {
				os.Symlink(bin+tool, dir+"/"+tool)
				break
			}
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

// TestNFSMountEndsWithTheContext covers a server that does not respond, so that mount(8) waits for
// mount.nfs. podrun must kill both when the context is done.
func TestNFSMountEndsWithTheContext(t *testing.T) {
	dir := fakeMount(t, `sleep 600 & echo $! > "${0%/*}/child.new"; cat "${0%/*}/child.new" > "${0%/*}/child"; wait`)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	interrupted := errors.New("interrupted")
	to, done := t.TempDir(), make(chan error, 1)
	go func() { done <- mountByProgram(ctx, "nfs.example:/export", to, "nfs", nil) }()
	child := 0
	patience.Wait(t, patience.OnFake, "the program starts its child", func() bool {
		data, _ := os.ReadFile(dir + "/child")
		child, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return child > 0
	})
	t.Cleanup(func() { unix.Kill(child, unix.SIGKILL) })
	cancel(interrupted)
	if err := patience.Receive(t, "the mount ends with its context", done); !errors.Is(err, interrupted) {
		t.Errorf("%v, want the cause of the context", err)
	}
	patience.Wait(t, patience.OnFake, "the child has ended", func() bool {
		return errors.Is(unix.Kill(child, 0), unix.ESRCH) || zombie(child)
	})
}

// zombie reports whether a process has exited and its parent has not reaped it.
func zombie(pid int) bool {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(rest, "Z")
}

func TestNFSMountByProgram(t *testing.T) {
	dir := fakeMount(t, `echo "$@" > "${0%/*}/args"`)
	if err := mountByProgram(t.Context(), "nfs.example:/export", "/at", "nfs", []string{"ro", "nfsvers=4.1"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(dir + "/args"); string(got) != "-t nfs -o ro,nfsvers=4.1 -- nfs.example:/export /at\n" {
		t.Errorf("arguments %q", got)
	}
	fakeMount(t, "echo 'access denied by server' >&2; exit 32")
	if err := mountByProgram(t.Context(), "nfs.example:/export", "/at", "nfs", nil); err == nil || err.Error() != "exit status 32: access denied by server" {
		t.Errorf("error %v", err)
	}
}

// TestApplyMountsAnExport checks that Apply runs the host's mount(8) to mount an export.
func TestApplyMountsAnExport(t *testing.T) {
	ring.RequireRoot(t)
	plan := livePod(t, `volumes: [{name: export, nfs: {server: nfs.example, path: /export}}]`)
	dir := fakeMount(t, `echo "$@" > "${0%/*}/args"`)
	if err := Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(dir + "/args"); string(got) != "-t nfs -- nfs.example:/export "+plan.Volumes[0].HostPath+"\n" {
		t.Errorf("arguments %q", got)
	}
}
