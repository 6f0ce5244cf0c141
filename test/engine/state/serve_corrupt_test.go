package state

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// corruptEvents counts the events that report a corrupt checkpoint.
func corruptEvents(s *rig.Supervised) (n int) {
	for _, e := range s.Events() {
		if e.Reason == event.CheckpointCorrupt && e.Type == event.Warning && e.Pod == "web" && strings.Contains(e.Message, "the pod's checkpoint") {
			n++
		}
	}
	return n
}

// spoilWeb corrupts the checkpoint of pod web.
func spoilWeb(s *rig.Supervised, how string) {
	s.T.Helper()
	spoil(s.T, s.Layout().Pod(s.Known("web")[0].ID.UID).Checkpoint(), how)
}

// TestServeReplacesACorruptPod covers a pod whose checkpoint is corrupt: serve must recreate the
// pod from the file that defines it, and report this.
func TestServeReplacesACorruptPod(t *testing.T) {
	t.Parallel()
	for how := range corruptFiles {
		t.Run(how, func(t *testing.T) {
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				s.Files.Write(rig.File("db"), rig.ServedPod("db"))
				time.Sleep(time.Minute)
				web, db := s.Running("web"), s.Running("db")
				s.End()
				spoilWeb(s, how)
				s.Start()
				time.Sleep(time.Minute)
				if c := s.Running("web"); c.ID == web.ID {
					t.Error("it was not replaced")
				}
				s.Same(db)
				if n := corruptEvents(s); n != 1 {
					t.Errorf("%d events: %q", n, s.Reasons())
				}
				if sum := s.Supervisor.Summary(); len(sum.Corrupt) > 0 || sum.String() != "2 pods: 2 supervised" {
					t.Errorf("%s, corrupt %v", sum, sum.Corrupt)
				}
				web = s.Running("web")
				s.Exit("web", 1)
				time.Sleep(5 * time.Second)
				if c := s.Running("web"); c.ID == web.ID {
					t.Error("it is not supervised")
				}
			})
		})
	}
}

// TestServeRestoresACheckpoint covers a checkpoint that becomes corrupt while a supervisor has the
// definition. The supervisor must write the checkpoint again, and the pod must continue to run,
// even if no file defines it.
func TestServeRestoresACheckpoint(t *testing.T) {
	t.Parallel()
	for _, filed := range []bool{true, false} {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			if filed {
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
			} else {
				s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("web")))
			}
			time.Sleep(time.Minute)
			web := s.Running("web")
			spoilWeb(s, "cut short")
			// This makes the supervisor read its state.
			s.Files.Write(rig.File("db"), rig.ServedPod("db"))
			time.Sleep(time.Minute)
			s.Same(web)
			if n := corruptEvents(s); n != 1 {
				t.Errorf("%d events: %q", n, s.Reasons())
			}
			s.Restart()
			time.Sleep(time.Minute)
			s.Same(web)
			if s.Known("web")[0].Pod == nil {
				t.Error("the checkpoint is corrupt")
			}
		})
	}
}

// TestServeRetriesToRestoreACheckpoint covers a checkpoint that serve cannot write again. It
// must never report the checkpoint as restored, and must write it as soon as possible.
func TestServeRetriesToRestoreACheckpoint(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		web := s.Running("web")
		path := s.Layout().Pod(s.Known("web")[0].ID.UID).Checkpoint()
		// The path is a directory, which no file can replace.
		s.NoError(nil, errors.Join(os.Remove(path), os.Mkdir(path, 0o750)))
		for _, name := range []string{"db", "app"} {
			// This makes the supervisor read its state.
			s.Files.Write(rig.File(name), rig.ServedPod(name))
			time.Sleep(time.Minute)
		}
		if n := corruptEvents(s); n != 0 {
			t.Errorf("%d events, and it was not written: %q", n, s.Reasons())
		}
		if n := s.Warned("write the checkpoint"); n != 1 {
			t.Errorf("%d warnings: %q", n, s.Warnings())
		}
		s.NoError(nil, errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)))
		time.Sleep(time.Minute)
		s.Same(web)
		if n := corruptEvents(s); n != 1 || s.Known("web")[0].Pod == nil {
			t.Errorf("it was not written: %d events, %q", n, s.Warnings())
		}
	})
}

// TestServeReportsACorruptPod covers a pod whose definition is lost: serve must report it, and
// not change it until a command deletes it or a file defines it.
func TestServeReportsACorruptPod(t *testing.T) {
	t.Parallel()
	for _, filed := range []bool{true, false} {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("web")))
			time.Sleep(time.Minute)
			web := s.Running("web")
			s.End()
			spoilWeb(s, "cut short")
			s.Start()
			time.Sleep(time.Hour)
			s.Same(web)
			if n := corruptEvents(s); n != 1 {
				t.Errorf("%d events: %q", n, s.Reasons())
			}
			sum := s.Supervisor.Summary()
			if len(sum.Corrupt) != 1 || sum.Corrupt[0].ID != "default/web" || sum.Corrupt[0].Why == "" || sum.String() != "1 pods: 1 failed" {
				t.Errorf("%s, corrupt %v", sum, sum.Corrupt)
			}
			if filed {
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				time.Sleep(time.Minute)
				if c := s.Running("web"); c.ID == web.ID {
					t.Error("it was not replaced")
				}
			} else {
				s.NoError(s.Delete(run.DeleteOptions{}, "web"))
				time.Sleep(rig.CommandsAfter)
			}
			if sum := s.Supervisor.Summary(); len(sum.Corrupt) > 0 {
				t.Errorf("corrupt: %v", sum.Corrupt)
			}
		})
	}
}

// TestServeKeepsAStoppedCorruptPod checks that serve does not start a stopped pod because its
// checkpoint is corrupt.
func TestServeKeepsAStoppedCorruptPod(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.NoError(run.StopPods(t.Context(), s.Engine(), s.Known("web"), run.DeleteOptions{}))
		spoilWeb(s, "empty")
		time.Sleep(time.Hour)
		s.WantStarts("web", 1)
		if sum := s.Supervisor.Summary(); len(sum.Corrupt) != 1 || corruptEvents(s) != 1 {
			t.Errorf("corrupt: %v, %d events", sum.Corrupt, corruptEvents(s))
		}
	})
}

// TestServeKeepsTheCorruptPodOfACommand covers a pod that a command applied after serve had applied
// the pod's file. serve must not replace the pod from the unchanged file.
func TestServeKeepsTheCorruptPodOfACommand(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.NoError(s.ApplyAll(t.Context(), strings.Replace(rig.ServedPod("web"), "app:1", "app:2", 1)))
		time.Sleep(rig.CommandsAfter)
		web := s.Running("web")
		s.End()
		spoilWeb(s, "cut short")
		s.Start()
		time.Sleep(time.Hour)
		s.Same(web)
		sum := s.Supervisor.Summary()
		if len(sum.Corrupt) != 1 || sum.String() != "1 pods: 1 failed" {
			t.Errorf("%s, corrupt %v", sum, sum.Corrupt)
		}
		if n := corruptEvents(s); n != 1 || !s.Emitted(event.CheckpointCorrupt, "podrun delete") || s.Emitted(event.CheckpointCorrupt, "replaces") {
			t.Errorf("%d events: %q", n, s.Reasons())
		}
		s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "db:1", 1))
		time.Sleep(time.Minute)
		if c := s.Running("web"); c.ID == web.ID {
			t.Errorf("the changed file was not applied: %q, %q", s.Warnings(), s.Reasons())
		}
	})
}

// TestServeKeepsAnEndedCorruptPod checks that serve does not run a terminated pod again because its
// checkpoint is corrupt, but only when its file changes.
func TestServeKeepsAnEndedCorruptPod(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		once := strings.Replace(rig.ServedPod("web"), "restartPolicy: Always", "restartPolicy: Never", 1)
		s.Files.Write(rig.File("web"), once)
		time.Sleep(time.Minute)
		s.Exit("web", 0)
		time.Sleep(time.Minute)
		s.End()
		spoilWeb(s, "empty")
		s.Start()
		time.Sleep(time.Hour)
		s.WantStarts("web", 1)
		if sum := s.Supervisor.Summary(); len(sum.Corrupt) != 1 || corruptEvents(s) != 1 || s.Emitted(event.CheckpointCorrupt, "replaces") {
			t.Errorf("corrupt: %v, %d events: %q", sum.Corrupt, corruptEvents(s), s.Reasons())
		}
		s.Files.Write(rig.File("web"), strings.Replace(once, "app:1", "app:2", 1))
		time.Sleep(time.Minute)
		s.WantStarts("web", 2)
	})
}
