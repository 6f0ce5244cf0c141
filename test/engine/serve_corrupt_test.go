package engine

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/eviction"
)

// corruptEvents counts the events that report a corrupt checkpoint.
func (s *serving) corruptEvents() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Reason == event.CheckpointCorrupt && e.Type == event.Warning && e.Pod == "web" && strings.Contains(e.Message, "the pod's checkpoint") {
			n++
		}
	}
	return n
}

// spoilWeb corrupts the checkpoint of pod web.
func (s *serving) spoilWeb(how string) {
	s.t.Helper()
	spoil(s.t, s.layout().Checkpoint(s.pod("web")[0].ID.UID), how)
}

// TestServeReplacesACorruptPod covers a pod whose checkpoint is corrupt: serve must recreate the
// pod from the file that defines it, and report this.
func TestServeReplacesACorruptPod(t *testing.T) {
	t.Parallel()
	for how := range corruptFiles {
		t.Run(how, func(t *testing.T) {
			serveTest(t, func(t *testing.T, s *serving) {
				s.files.write(file("web"), servedPod("web"))
				s.files.write(file("db"), servedPod("db"))
				time.Sleep(time.Minute)
				web, db := s.running("web"), s.running("db")
				s.end()
				s.spoilWeb(how)
				s.start()
				time.Sleep(time.Minute)
				if c := s.running("web"); c.ID == web.ID {
					t.Error("it was not replaced")
				}
				s.same(db)
				if n := s.corruptEvents(); n != 1 {
					t.Errorf("%d events: %q", n, s.reasons())
				}
				if sum := s.super.Summary(); len(sum.Corrupt) > 0 || sum.String() != "2 pods: 2 supervised" {
					t.Errorf("%s, corrupt %v", sum, sum.Corrupt)
				}
				web = s.running("web")
				s.exit("web", 1)
				time.Sleep(5 * time.Second)
				if c := s.running("web"); c.ID == web.ID {
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
		serveTest(t, func(t *testing.T, s *serving) {
			if filed {
				s.files.write(file("web"), servedPod("web"))
			} else {
				s.noError(s.applyAll(t.Context(), servedPod("web")))
			}
			time.Sleep(time.Minute)
			web := s.running("web")
			s.spoilWeb("cut short")
			// This makes the supervisor read its state.
			s.files.write(file("db"), servedPod("db"))
			time.Sleep(time.Minute)
			s.same(web)
			if n := s.corruptEvents(); n != 1 {
				t.Errorf("%d events: %q", n, s.reasons())
			}
			s.restart()
			time.Sleep(time.Minute)
			s.same(web)
			if s.pod("web")[0].Pod == nil {
				t.Error("the checkpoint is corrupt")
			}
		})
	}
}

// TestServeRetriesToRestoreACheckpoint covers a checkpoint that serve cannot write again. It
// must never report the checkpoint as restored, and must write it as soon as possible.
func TestServeRetriesToRestoreACheckpoint(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		web := s.running("web")
		path := s.layout().Checkpoint(s.pod("web")[0].ID.UID)
		// The path is a directory, which no file can replace.
		s.noError(nil, errors.Join(os.Remove(path), os.Mkdir(path, 0o750)))
		for _, name := range []string{"db", "app"} {
			// This makes the supervisor read its state.
			s.files.write(file(name), servedPod(name))
			time.Sleep(time.Minute)
		}
		if n := s.corruptEvents(); n != 0 {
			t.Errorf("%d events, and it was not written: %q", n, s.reasons())
		}
		if n := s.warned("write the checkpoint"); n != 1 {
			t.Errorf("%d warnings: %q", n, s.warnings)
		}
		s.noError(nil, errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)))
		time.Sleep(time.Minute)
		s.same(web)
		if n := s.corruptEvents(); n != 1 || s.pod("web")[0].Pod == nil {
			t.Errorf("it was not written: %d events, %q", n, s.warnings)
		}
	})
}

// TestServeReportsACorruptPod covers a pod whose definition is lost: serve must report it, and
// not change it until a command deletes it or a file defines it.
func TestServeReportsACorruptPod(t *testing.T) {
	t.Parallel()
	for _, filed := range []bool{true, false} {
		serveTest(t, func(t *testing.T, s *serving) {
			s.noError(s.applyAll(t.Context(), servedPod("web")))
			time.Sleep(time.Minute)
			web := s.running("web")
			s.end()
			s.spoilWeb("cut short")
			s.start()
			time.Sleep(time.Hour)
			s.same(web)
			if n := s.corruptEvents(); n != 1 {
				t.Errorf("%d events: %q", n, s.reasons())
			}
			sum := s.super.Summary()
			if len(sum.Corrupt) != 1 || sum.Corrupt[0].ID != "default/web" || sum.Corrupt[0].Why == "" || sum.String() != "1 pods: 1 failed" {
				t.Errorf("%s, corrupt %v", sum, sum.Corrupt)
			}
			if filed {
				s.files.write(file("web"), servedPod("web"))
				time.Sleep(time.Minute)
				if c := s.running("web"); c.ID == web.ID {
					t.Error("it was not replaced")
				}
			} else {
				s.noError(s.delete(run.DeleteOptions{}, "web"))
				time.Sleep(commandsAfter)
			}
			if sum := s.super.Summary(); len(sum.Corrupt) > 0 {
				t.Errorf("corrupt: %v", sum.Corrupt)
			}
		})
	}
}

// TestServeKeepsAStoppedCorruptPod checks that serve does not start a stopped pod because its
// checkpoint is corrupt.
func TestServeKeepsAStoppedCorruptPod(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		s.noError(run.StopPods(t.Context(), s.engine(), s.pod("web"), run.DeleteOptions{}))
		s.spoilWeb("empty")
		time.Sleep(time.Hour)
		s.wantStarts("web", 1)
		if sum := s.super.Summary(); len(sum.Corrupt) != 1 || s.corruptEvents() != 1 {
			t.Errorf("corrupt: %v, %d events", sum.Corrupt, s.corruptEvents())
		}
	})
}

// TestServeKeepsTheCorruptPodOfACommand covers a pod that a command applied after serve had applied
// the pod's file. serve must not replace the pod from the unchanged file.
func TestServeKeepsTheCorruptPodOfACommand(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		s.noError(s.applyAll(t.Context(), strings.Replace(servedPod("web"), "app:1", "app:2", 1)))
		time.Sleep(commandsAfter)
		web := s.running("web")
		s.end()
		s.spoilWeb("cut short")
		s.start()
		time.Sleep(time.Hour)
		s.same(web)
		sum := s.super.Summary()
		if len(sum.Corrupt) != 1 || sum.String() != "1 pods: 1 failed" {
			t.Errorf("%s, corrupt %v", sum, sum.Corrupt)
		}
		if n := s.corruptEvents(); n != 1 || !s.emitted(event.CheckpointCorrupt, "podrun delete") || s.emitted(event.CheckpointCorrupt, "replaces") {
			t.Errorf("%d events: %q", n, s.reasons())
		}
		s.files.write(file("web"), strings.Replace(servedPod("web"), "app:1", "db:1", 1))
		time.Sleep(time.Minute)
		if c := s.running("web"); c.ID == web.ID {
			t.Errorf("the changed file was not applied: %q, %q", s.warnings, s.reasons())
		}
	})
}

// TestServeKeepsAnEndedCorruptPod checks that serve does not run a terminated pod again because its
// checkpoint is corrupt, but only when its file changes.
func TestServeKeepsAnEndedCorruptPod(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		once := strings.Replace(servedPod("web"), "restartPolicy: Always", "restartPolicy: Never", 1)
		s.files.write(file("web"), once)
		time.Sleep(time.Minute)
		s.exit("web", 0)
		time.Sleep(time.Minute)
		s.end()
		s.spoilWeb("empty")
		s.start()
		time.Sleep(time.Hour)
		s.wantStarts("web", 1)
		if sum := s.super.Summary(); len(sum.Corrupt) != 1 || s.corruptEvents() != 1 || s.emitted(event.CheckpointCorrupt, "replaces") {
			t.Errorf("corrupt: %v, %d events: %q", sum.Corrupt, s.corruptEvents(), s.reasons())
		}
		s.files.write(file("web"), strings.Replace(once, "app:1", "app:2", 1))
		time.Sleep(time.Minute)
		s.wantStarts("web", 2)
	})
}

// TestServeRetriesAnEvictedCorruptPod checks that serve replaces an evicted pod after the
// transition period, even if the pod's checkpoint is corrupt.
func TestServeRetriesAnEvictedCorruptPod(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), podText("web", "Always", "containers: [{name: web, image: registry.example/web:1}]", "volumes: [{name: data, emptyDir: {sizeLimit: 1Gi}}]"))
		time.Sleep(5 * time.Second)
		s.node.change(func(u *usedNode) {
			u.pods["web"] = &eviction.Usage{Volumes: map[string]eviction.Disk{"data": {Bytes: 2 * gib}}}
		})
		time.Sleep(time.Minute + examine)
		s.wantEvicted("web", "exceeds the limit")
		s.end()
		s.node.change(func(u *usedNode) { delete(u.pods, "web") })
		s.spoilWeb("cut short")
		s.start()
		time.Sleep(3 * time.Minute)
		s.absent("web")
		time.Sleep(3 * time.Minute)
		s.running("web")
		s.wantStarts("web", 2)
	})
}
