package engine

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestServeWithoutDescriptors covers a supervisor that has no free file descriptor. Then it can read no
// checkpoint, which says nothing about the checkpoints: it must neither report them as corrupt nor advise to
// delete pods, and must continue when descriptors are free.
func TestServeWithoutDescriptors(t *testing.T) {
	serveTest(t, func(t *testing.T, s *serving) {
		for _, name := range []string{"web", "db"} {
			s.files.write(file(name), servedPod(name))
		}
		time.Sleep(time.Minute)
		web, db := s.running("web"), s.running("db")
		s.end()
		s.start()
		restore := withoutDescriptors(t)
		s.files.write(file("app"), servedPod("app"))
		time.Sleep(time.Minute)
		if blocked := s.super.Summary().Blocked; !strings.Contains(blocked, "too many open files") {
			t.Errorf("blocked: %q", blocked)
		}
		restore()
		if n := s.corruptEvents(); n > 0 || s.warned("podrun delete")+s.warned("is corrupt") > 0 {
			t.Errorf("%d events: %q, %q", n, s.reasons(), s.warnings)
		}
		time.Sleep(2 * time.Minute)
		s.running("app")
		s.same(web)
		s.same(db)
		if sum := s.super.Summary(); sum.Blocked != "" || len(sum.Corrupt) > 0 || sum.String() != "3 pods: 3 supervised" {
			t.Errorf("%s, blocked %q, corrupt %v", sum, sum.Blocked, sum.Corrupt)
		}
	})
}

// withoutDescriptors makes every open(2) of this process fail with EMFILE until restore is called.
func withoutDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: 3, Max: limit.Max})
	restored := false
	restore = func() {
		if !restored {
			set(limit)
			restored = true
		}
	}
	t.Cleanup(restore)
	return restore
}

// TestServeKeepsAnUnreadablePod covers a checkpoint that the system cannot read. Its content may be intact, so
// serve must not replace the pod, and must supervise it again when the file can be read.
func TestServeKeepsAnUnreadablePod(t *testing.T) {
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		web := s.running("web")
		s.end()
		path := s.layout().Checkpoint(s.pod("web")[0].ID.UID)
		damage(t, path, "unreadable")
		s.start()
		time.Sleep(time.Minute)
		s.same(web)
		if blocked := s.super.Summary().Blocked; !strings.Contains(blocked, path+" cannot be read: input/output error") || s.corruptEvents() > 0 {
			t.Errorf("blocked: %q, events %q", blocked, s.reasons())
		}
		s.wantStarts("web", 1)
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		s.same(web)
		if sum := s.super.Summary(); sum.Blocked != "" || sum.String() != "1 pods: 1 supervised" {
			t.Errorf("%s, blocked %q", sum, sum.Blocked)
		}
	})
}
