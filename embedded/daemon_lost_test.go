package embedded

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// startFake starts a process that podrun takes for containerd: its program has the path of an unpacked
// archive, and its command line names the layout's configuration. The process waits for the end of the test.
func startFake(t *testing.T, l Layout) *exec.Cmd {
	t.Helper()
	program := filepath.Join(l.Unpacked(someDigest), "bin", "containerd")
	shell, err := os.ReadFile("/bin/sh")
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(program), 0o755), os.MkdirAll(l.State(), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	return startShell(t, program, "--config", l.Config())
}

// startShell starts a copy of the shell that waits until the end of the test or until it is killed, with
// further arguments for its command line.
func startShell(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, append([]string{"-c", "echo started; read line"}, args...)...)
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(err, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("started"))); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestDaemonIsFoundWithoutItsRecord checks that podrun finds a running containerd whose record is lost, and that it
// does not take another process for it.
func TestDaemonIsFoundWithoutItsRecord(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"absent":      func(string) error { return nil },
		"cut":         func(path string) error { return os.WriteFile(path, []byte(`{"schemaVersion":1,"pid":`), 0o600) },
		"empty":       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "sub"), 0o700) },
		"newer":       func(path string) error { return os.WriteFile(path, []byte(`{"schemaVersion":9}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			l, other := layoutIn(t), layoutIn(t)
			cmd := startFake(t, l)
			startFake(t, other)
			if err := damage(l.Daemon()); err != nil {
				t.Fatal(err)
			}
			d := ReadDaemon(t.Context(), l)
			if d == nil || d.PID != cmd.Process.Pid || d.Digest != someDigest || !d.Alive() || !d.Unrecorded() {
				t.Fatalf("found %+v, want process %d", d, cmd.Process.Pid)
			}
			if err := RestoreDaemon(l, d); err != nil {
				t.Fatal(err)
			}
			again := ReadDaemon(t.Context(), l)
			if again == nil || again.PID != d.PID || again.Unrecorded() != (name == "newer") {
				t.Errorf("after the record was restored: %+v", again)
			}
		})
	}
	l := layoutIn(t)
	if err := os.MkdirAll(l.State(), 0o700); err != nil {
		t.Fatal(err)
	}
	if d := ReadDaemon(t.Context(), l); d != nil {
		t.Errorf("found %+v, but none runs", d)
	}
}

// TestInterruptedReads checks that an interrupted read is not taken for a lost record, which podrun would write again,
// nor for a runtime that does not run.
func TestInterruptedReads(t *testing.T) {
	l := layoutIn(t)
	cmd := startFake(t, l)
	d, err := Identify(t.Context(), cmd.Process.Pid)
	d.Digest = someDigest
	if err = errors.Join(err, d.write(l), WriteChoice(l, Choice{Kind: Own, Digest: someDigest})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	signal := errors.New("ended by a signal")
	cancel(signal)
	if _, err := ReadChoice(ctx, l); !errors.Is(err, signal) || errors.Is(err, ErrLostChoice) {
		t.Errorf("ReadChoice: %v, want the cause, and no loss", err)
	}
	if found := ReadDaemon(ctx, l); found == nil || found.PID != cmd.Process.Pid || found.Unrecorded() {
		t.Errorf("ReadDaemon: %+v", found)
	}
}
