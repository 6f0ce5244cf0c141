package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestStart checks the namespaces, the record and the privileges of a process.
func TestStart(t *testing.T) {
	i := newInstance(t)
	m := i.start()
	if m != (message{Ready: true}) {
		t.Fatalf("%+v", m)
	}
	r := i.record()
	want := fmt.Sprintf("0 %d 1\n1 200000 65536\n", testUser)
	if r.UIDMap != want || r.GIDMap != want || r.SingleID {
		t.Errorf("%+v", r)
	}
	if !r.alive() {
		t.Error("the process of the record is not alive")
	}
	if err := checkThreads(r.PID, "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"); err != nil {
		t.Error(err)
	}
	if own, err := namespaceOf("/proc/self/ns/net"); err != nil {
		t.Error(err)
	} else if its, err := namespaceOf(fmt.Sprintf("/proc/%d/ns/net", r.PID)); err != nil || own != its {
		t.Errorf("network namespace %d, not the host's %d: %v", its, own, err)
	}
	out, err := i.enter(r, "/bin/sh", "-c", "id -u; readlink /proc/self/ns/user; touch /var/lib/cni/x && echo writable; stat -f -c %t "+r.Netns).CombinedOutput()
	if want := fmt.Sprintf("0\nuser:[%d]\nwritable\n6e736673\n", r.UserNamespace); err != nil || string(out) != want {
		t.Errorf("in U: %s, want %s: %v", out, want, err)
	}
	if _, err := os.Stat("/var/lib/cni/x"); err == nil {
		t.Error("a file in M's /var/lib/cni is on the host")
	}
	if again := i.start(); again != m || i.record().PID != r.PID {
		t.Errorf("second start: %+v, process %d", again, i.record().PID)
	}
	pid := r.PID
	i.killAndWait(pid)
	if r := i.mustStart(); r.PID == pid {
		t.Error("no new process")
	}
}

// TestConcurrentStarts checks that one process remains.
func TestConcurrentStarts(t *testing.T) {
	i := newInstance(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if m := i.start(); !m.Ready {
				t.Errorf("%+v", m)
			}
		}()
	}
	wg.Wait()
	if n := len(processesOf(i.dir)); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// checkThreads checks that the status of each thread contains all lines.
func checkThreads(pid int, lines ...string) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, thread.Name()))
		if err != nil {
			continue // it has ended
		}
		for _, line := range lines {
			if !strings.Contains(string(status), line) {
				return fmt.Errorf("thread %s: no %q in\n%s", thread.Name(), line, status)
			}
		}
	}
	return nil
}
