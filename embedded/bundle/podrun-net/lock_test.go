package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unprivileged runs a command as an unprivileged user, like a process in a container of a
// hostNetwork pod.
var unprivileged = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}

// TestLockOfAnotherUser covers a user who has locked the file of the network namespace, which
// every user can open. Attachments must be added and removed nevertheless.
func TestLockOfAnotherUser(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	p := h.addPod("br0", 77)
	attacker := exec.Command("flock", "--nonblock", "/proc/self/ns/net", "sh", "-c", "echo locked; cat")
	attacker.SysProcAttr = unprivileged
	stdin, err := attacker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := attacker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.do(func() {
		if err := attacker.Start(); err != nil {
			t.Error(err)
		}
	})
	defer func() { stdin.Close(); io.Copy(io.Discard, stdout); attacker.Wait() }()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the attacker has no lock: %q %v", line, err)
	}
	start := time.Now()
	p.add()
	p.del()
	h.leftNothing()
	// Each of the two calls waits once for the lock on the namespace.
	if took := time.Since(start); took > lockLimit/2 {
		t.Errorf("ADD and DEL took %s", took)
	}
	attack := exec.Command("flock", "--nonblock", lockDir, "true")
	attack.SysProcAttr = unprivileged
	if out, err := attack.CombinedOutput(); err == nil {
		t.Errorf("another user can lock %s: %s", lockDir, out)
	}
}

// TestLockExcludes checks that two podrun-net processes exclude each other. They must also
// exclude a process of an older release, which locks only the network namespace.
func TestLockExcludes(t *testing.T) {
	newHost(t).do(func() {
		unlock, err := lock()
		if err != nil {
			t.Error(err)
			return
		}
		older, err := os.Open(namespaceFile)
		if err != nil {
			t.Error(err)
			return
		}
		defer older.Close()
		if err := unix.Flock(int(older.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			t.Errorf("an older podrun-net gets the lock: %v", err)
		}
		dir, err := os.Open(lockDir)
		if err != nil {
			t.Error(err)
			return
		}
		defer dir.Close()
		if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			t.Errorf("another podrun-net gets the lock: %v", err)
		}
		unlock()
		for _, f := range []*os.File{older, dir} {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Errorf("%s after unlock: %v", f.Name(), err)
			}
		}
	})
}
