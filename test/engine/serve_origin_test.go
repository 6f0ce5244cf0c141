package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
)

// changedPod returns servedPod with a definition that requires a replacement.
func changedPod(name string) string {
	return strings.Replace(servedPod(name), "app:1", "app:1, args: [x]", 1)
}

// TestServeKeepsPodsOfCommands checks that the removal of a file deletes only a pod that came
// from the file, and not one of the same name that a command has applied since.
func TestServeKeepsPodsOfCommands(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, s *serving){
		"delete, remove the file, apply": func(t *testing.T, s *serving) {
			s.end()
			s.noError(s.delete(run.DeleteOptions{}, "web"))
			s.files.remove(file("web"))
			s.noError(s.applyAll(t.Context(), servedPod("web")))
		},
		"delete, apply, remove the file": func(t *testing.T, s *serving) {
			s.end()
			s.noError(s.delete(run.DeleteOptions{}, "web"))
			s.noError(s.applyAll(t.Context(), changedPod("web")))
			s.start()
			time.Sleep(time.Minute)
			if c := s.running("web"); len(c.Config.GetArgs()) != 1 {
				t.Error("the definition of the command was reverted")
			}
			s.files.remove(file("web"))
		},
		"apply another definition": func(t *testing.T, s *serving) {
			s.noError(s.applyAll(t.Context(), changedPod("web")))
			s.files.remove(file("web"))
		},
		"apply an update": func(t *testing.T, s *serving) {
			s.noError(s.applyAll(t.Context(), strings.Replace(servedPod("web"), "app:1", "app:2", 1)))
			time.Sleep(time.Minute)
			s.files.remove(file("web"))
		},
		"apply the same definition": func(t *testing.T, s *serving) {
			s.noError(s.applyAll(t.Context(), servedPod("web")))
			s.files.remove(file("web"))
		},
		"apply, then a restart of serve": func(t *testing.T, s *serving) {
			s.noError(s.applyAll(t.Context(), changedPod("web")))
			s.restart()
			time.Sleep(time.Minute)
			s.end()
			s.files.remove(file("web"))
		},
		"apply before a definition of the file that cannot be applied": func(t *testing.T, s *serving) {
			s.noError(s.applyAll(t.Context(), changedPod("web")))
			s.files.write(file("web"), strings.Replace(changedPod("web"), "app:1", "missing:1", 1))
			time.Sleep(time.Minute)
			s.files.remove(file("web"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			serveTest(t, func(t *testing.T, s *serving) {
				s.files.write(file("web"), servedPod("web"))
				time.Sleep(time.Minute)
				replace(t, s)
				web := s.running("web")
				if s.end == nil {
					s.start()
				}
				time.Sleep(time.Hour)
				s.same(web)
				s.noSourceLeft()
				if n := s.warned("podrun delete"); n != 1 {
					t.Errorf("%d warnings that the pod is kept: %q", n, s.warnings)
				}
				// The pod now belongs to a command. When a file defines it again, it also belongs to that
				// file.
				s.files.write(file("web"), servedPod("web"))
				time.Sleep(time.Minute)
				s.files.remove(file("web"))
				time.Sleep(time.Minute)
				s.absent("web")
			})
		})
	}
}

// TestServeDeletesItsPods covers commands that do not apply a definition. They must not separate a
// pod from its file.
func TestServeDeletesItsPods(t *testing.T) {
	t.Parallel()
	options := run.ApplyOptions{AllowKubelet: true}
	for name, do := range map[string]func(t *testing.T, s *serving){
		"restart": func(t *testing.T, s *serving) { s.noError(restartPods(t.Context(), s.engine(), s.pod("web"), options)) },
		"stop and start": func(t *testing.T, s *serving) {
			s.noError(run.StopPods(t.Context(), s.engine(), s.pod("web"), run.DeleteOptions{}))
			s.noError(run.StartPods(t.Context(), s.engine(), s.pod("web"), options))
		},
		"delete": func(t *testing.T, s *serving) {
			s.noError(s.delete(run.DeleteOptions{}, "web"))
			time.Sleep(time.Minute)
		},
		"an apply that fails": func(t *testing.T, s *serving) {
			results, err := s.applyAll(t.Context(), strings.Replace(changedPod("web"), "app:1", "missing:1", 1))
			if err == nil && results[0].Err == nil {
				t.Error("it did not fail")
			}
		},
		"an apply, and then another definition of the file": func(t *testing.T, s *serving) {
			s.noError(s.applyAll(t.Context(), changedPod("web")))
			s.files.write(file("web"), strings.Replace(servedPod("web"), "app:1", "app:2", 1))
			time.Sleep(time.Minute)
		},
		"another name of the file": func(t *testing.T, s *serving) {
			s.files.write(file("other"), servedPod("web"))
			s.files.remove(file("web"))
			time.Sleep(time.Minute)
			s.running("web")
			s.files.remove(file("other"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			serveTest(t, func(t *testing.T, s *serving) {
				s.files.write(file("web"), servedPod("web"))
				time.Sleep(time.Minute)
				do(t, s)
				s.files.remove(file("web"))
				time.Sleep(time.Minute)
				s.absent("web")
			})
		})
	}
}

// TestServeMovedFile covers a pod whose file moves to another directory: serve must keep the
// pod while that directory cannot be read.
func TestServeMovedFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &serving{rig: newRig(t), files: newManifests(t, served, otherDir)}
		s.start()
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		web := s.running("web")
		moved := filepath.Join(otherDir, "web.yaml")
		s.files.write(moved, servedPod("web"))
		s.files.remove(file("web"))
		time.Sleep(time.Minute)
		s.end()
		s.files.reach(otherDir, false)
		s.files.forget()
		s.start()
		time.Sleep(time.Hour)
		s.same(web)
		s.files.reach(otherDir, true)
		s.files.remove(moved)
		time.Sleep(time.Minute)
		s.absent("web")
		s.finish()
	})
}

// olderOwner rewrites an owner record in the format of an older version of podrun, which does not
// support origins.
func (s *serving) olderOwner(name string) {
	s.t.Helper()
	path := s.layout().Owner(identity.Pod{Namespace: "default", Name: name})
	data, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(data, &record); err != nil {
		s.t.Fatal(err)
	}
	delete(record, "origin")
	if data, err = json.Marshal(record); err != nil {
		s.t.Fatal(err)
	}
	if err := hostfile.WriteUnsynced(path, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// TestServeAfterADowngrade covers a pod that an older version of podrun, which does not record
// origins, applied while serve was not running. If the pod's file was removed during that time,
// serve must keep the pod. If the file is removed later, serve must delete the pod.
func TestServeAfterADowngrade(t *testing.T) {
	t.Parallel()
	for _, removed := range []bool{true, false} {
		serveTest(t, func(t *testing.T, s *serving) {
			s.files.write(file("web"), servedPod("web"))
			time.Sleep(time.Minute)
			s.end()
			s.noError(s.delete(run.DeleteOptions{}, "web"))
			s.noError(s.applyAll(t.Context(), servedPod("web")))
			s.olderOwner("web")
			if removed {
				s.files.remove(file("web"))
			}
			web := s.running("web")
			s.start()
			time.Sleep(time.Hour)
			s.same(web)
			if removed {
				s.noSourceLeft()
				return
			}
			s.files.remove(file("web"))
			time.Sleep(time.Minute)
			s.absent("web")
		})
	}
}

// TestServeDeletesNoSuccessor covers a command that applies another pod of the same name after
// serve has decided to delete a pod whose file was removed, but before serve has acquired the pod's
// lock. serve must not delete the new pod.
func TestServeDeletesNoSuccessor(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		s.rt.Fault("CreateContainer", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1})
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.noError(s.applyAll(t.Context(), changedPod("web")))
		}()
		time.Sleep(10 * time.Second)
		s.files.remove(file("web"))
		<-done
		web := s.running("web")
		time.Sleep(time.Minute)
		s.same(web)
	})
}
