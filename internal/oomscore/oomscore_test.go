package oomscore

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestMayLower(t *testing.T) {
	const all, without = "Name:\tx\nCapEff:\t000001ffffffffff\n", "CapEff:\t000001fffeffffff\n"
	for _, c := range []struct{ status, userNS, want string }{
		{all, initialUserNS, "yes"}, {all, "", "yes"}, {all, "user:[4026532561]", "no"}, {without, initialUserNS, "no"}, {without, "user:[4026532561]", "no"},
		{"CapEff:\tx\n", initialUserNS, "unknown"}, {"", initialUserNS, "unknown"},
	} {
		got := "unknown"
		if may := MayLower(c.status, c.userNS); may != nil {
			got = map[bool]string{true: "yes", false: "no"}[*may]
		}
		if got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.status, c.userNS, got, c.want)
		}
	}
}

// TestMayLowerInUserNamespace checks the result for root in a real user namespace: it has the
// capability there, but the kernel does not let it lower a score.
func TestMayLowerInUserNamespace(t *testing.T) {
	c := exec.Command("cat")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{Size: 1, HostID: os.Getuid()}}, Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skipf("this host has no user namespaces: %v", err)
	}
	defer func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}()
	proc := fmt.Sprintf("/proc/%d", c.Process.Pid)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		t.Fatal(err)
	}
	userNS, err := os.Readlink(proc + "/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	if may := MayLower(string(status), userNS); may == nil || *may {
		t.Errorf("%v in the namespace %s with\n%s", may, userNS, status)
	}
}
