package state

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/engine/rig"
)

// TestServeWithoutDescriptors covers a supervisor that has no free file descriptor. Then it can read no
// checkpoint, which says nothing about the checkpoints: it must neither report them as corrupt nor advise to
// delete pods, and must continue when descriptors are free.
func TestServeWithoutDescriptors(t *testing.T) {
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		for _, name := range []string{"web", "db"} {
			s.Files.Write(rig.File(name), rig.ServedPod(name))
		}
		time.Sleep(time.Minute)
		web, db := s.Running("web"), s.Running("db")
		s.End()
		s.Start()
		restore := withoutDescriptors(t)
		s.Files.Write(rig.File("app"), rig.ServedPod("app"))
		time.Sleep(time.Minute)
		if blocked := s.Supervisor.Summary().Blocked; !strings.Contains(blocked, "too many open files") {
			t.Errorf("blocked: %q", blocked)
		}
		restore()
		if n := corruptEvents(s); n > 0 || s.Warned("podrun delete")+s.Warned("is corrupt") > 0 {
			t.Errorf("%d events: %q, %q", n, s.Reasons(), s.Warnings())
		}
		time.Sleep(2 * time.Minute)
		s.Running("app")
		s.Same(web)
		s.Same(db)
		if sum := s.Supervisor.Summary(); sum.Blocked != "" || len(sum.Corrupt) > 0 || sum.String() != "3 pods: 3 supervised" {
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
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		web := s.Running("web")
		s.End()
		path := s.Layout().Pod(s.Known("web")[0].ID.UID).Checkpoint()
		damage(t, path, "unreadable")
		s.Start()
		time.Sleep(time.Minute)
		s.Same(web)
		if blocked := s.Supervisor.Summary().Blocked; !strings.Contains(blocked, path+" cannot be read: input/output error") || corruptEvents(s) > 0 {
			t.Errorf("blocked: %q, events %q", blocked, s.Reasons())
		}
		s.WantStarts("web", 1)
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		s.Same(web)
		if sum := s.Supervisor.Summary(); sum.Blocked != "" || sum.String() != "1 pods: 1 supervised" {
			t.Errorf("%s, blocked %q", sum, sum.Blocked)
		}
	})
}
