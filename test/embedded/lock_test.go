package embedded

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/test/ring"
)

// TestAnotherUserHoldsTheNetworkNamespace covers a process of an unprivileged user that locks the
// host's network namespace. It must not block the network of pods. podrun-net once used this
// namespace as its lock; its current lock can be opened only by root.
func TestAnotherUserHoldsTheNetworkNamespace(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	holder := exec.Command("flock", "-n", "/proc/self/ns/net", "sh", "-c", "echo held; exec sleep 600")
	holder.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Setpgid: true}
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-holder.Process.Pid, syscall.SIGKILL); _ = holder.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the lock is not held: %q, %v", line, err)
	}
	begun := time.Now()
	r.must("apply", "pod.yaml")
	r.answers()
	r.must("delete", "web")
	t.Logf("apply and delete took %s", time.Since(begun))
	namespace, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	if err := syscall.Flock(int(namespace.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EWOULDBLOCK {
		t.Errorf("the other user's lock was not held to the end: %v", err)
	}
	if log := r.log(); strings.Contains(log, "podrun-net holds it") {
		t.Errorf("the runtime's log:\n%s", log)
	}
}
