package serve

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
	"github.com/podrun/podrun/test/engine/rig"
)

// changedPod returns rig.ServedPod with a definition that requires a replacement.
func changedPod(name string) string {
	return strings.Replace(rig.ServedPod(name), "app:1", "app:1, args: [x]", 1)
}

// TestServeKeepsPodsOfCommands checks that the removal of a file deletes only a pod that came
// from the file, and not one of the same name that a command has applied since.
func TestServeKeepsPodsOfCommands(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, s *rig.Supervised){
		"delete, remove the file, apply": func(t *testing.T, s *rig.Supervised) {
			s.End()
			s.NoError(s.Delete(run.DeleteOptions{}, "web"))
			s.Files.Remove(rig.File("web"))
			s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("web")))
		},
		"delete, apply, remove the file": func(t *testing.T, s *rig.Supervised) {
			s.End()
			s.NoError(s.Delete(run.DeleteOptions{}, "web"))
			s.NoError(s.ApplyAll(t.Context(), changedPod("web")))
			s.Start()
			time.Sleep(time.Minute)
			if c := s.Running("web"); len(c.Config.GetArgs()) != 1 {
				t.Error("the definition of the command was reverted")
			}
			s.Files.Remove(rig.File("web"))
		},
		"apply another definition": func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.ApplyAll(t.Context(), changedPod("web")))
			s.Files.Remove(rig.File("web"))
		},
		"apply an update": func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.ApplyAll(t.Context(), strings.Replace(rig.ServedPod("web"), "app:1", "app:2", 1)))
			time.Sleep(time.Minute)
			s.Files.Remove(rig.File("web"))
		},
		"apply the same definition": func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("web")))
			s.Files.Remove(rig.File("web"))
		},
		"apply, then a restart of serve": func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.ApplyAll(t.Context(), changedPod("web")))
			s.Restart()
			time.Sleep(time.Minute)
			s.End()
			s.Files.Remove(rig.File("web"))
		},
		"apply before a definition of the file that cannot be applied": func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.ApplyAll(t.Context(), changedPod("web")))
			s.Files.Write(rig.File("web"), strings.Replace(changedPod("web"), "app:1", "missing:1", 1))
			time.Sleep(time.Minute)
			s.Files.Remove(rig.File("web"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				time.Sleep(time.Minute)
				replace(t, s)
				web := s.Running("web")
				if s.Stopped() {
					s.Start()
				}
				time.Sleep(time.Hour)
				s.Same(web)
				s.NoSourceLeft()
				if n := s.Warned("podrun delete"); n != 1 {
					t.Errorf("%d warnings that the pod is kept: %q", n, s.Warnings())
				}
				// The pod now belongs to a command. When a file defines it again, it also belongs to that
				// file.
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				time.Sleep(time.Minute)
				s.Files.Remove(rig.File("web"))
				time.Sleep(time.Minute)
				s.Absent("web")
			})
		})
	}
}

// TestServeDeletesItsPods covers commands that do not apply a definition. They must not separate a
// pod from its file.
func TestServeDeletesItsPods(t *testing.T) {
	t.Parallel()
	options := run.ApplyOptions{AllowKubelet: true}
	for name, do := range map[string]func(t *testing.T, s *rig.Supervised){
		"restart": func(t *testing.T, s *rig.Supervised) {
			s.NoError(rig.RestartPods(t.Context(), s.Engine(), s.Known("web"), options))
		},
		"stop and start": func(t *testing.T, s *rig.Supervised) {
			s.NoError(run.StopPods(t.Context(), s.Engine(), s.Known("web"), run.DeleteOptions{}))
			s.NoError(run.StartPods(t.Context(), s.Engine(), s.Known("web"), options))
		},
		"delete": func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.Delete(run.DeleteOptions{}, "web"))
			time.Sleep(time.Minute)
		},
		"an apply that fails": func(t *testing.T, s *rig.Supervised) {
			results, err := s.ApplyAll(t.Context(), strings.Replace(changedPod("web"), "app:1", "missing:1", 1))
			if err == nil && results[0].Err == nil {
				t.Error("it did not fail")
			}
		},
		"an apply, and then another definition of the file": func(t *testing.T, s *rig.Supervised) {
			s.NoError(s.ApplyAll(t.Context(), changedPod("web")))
			s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "app:2", 1))
			time.Sleep(time.Minute)
		},
		"another name of the file": func(t *testing.T, s *rig.Supervised) {
			s.Files.Write(rig.File("other"), rig.ServedPod("web"))
			s.Files.Remove(rig.File("web"))
			time.Sleep(time.Minute)
			s.Running("web")
			s.Files.Remove(rig.File("other"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				time.Sleep(time.Minute)
				do(t, s)
				s.Files.Remove(rig.File("web"))
				time.Sleep(time.Minute)
				s.Absent("web")
			})
		})
	}
}

// TestServeMovedFile covers a pod whose file moves to another directory: serve must keep the
// pod while that directory cannot be read.
func TestServeMovedFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &rig.Supervised{Host: rig.New(t), Files: rig.NewManifests(t, rig.ManifestDir, otherDir)}
		s.Start()
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		web := s.Running("web")
		moved := filepath.Join(otherDir, "web.yaml")
		s.Files.Write(moved, rig.ServedPod("web"))
		s.Files.Remove(rig.File("web"))
		time.Sleep(time.Minute)
		s.End()
		s.Files.Reach(otherDir, false)
		s.Files.Forget()
		s.Start()
		time.Sleep(time.Hour)
		s.Same(web)
		s.Files.Reach(otherDir, true)
		s.Files.Remove(moved)
		time.Sleep(time.Minute)
		s.Absent("web")
		s.Finish()
	})
}

// olderOwner rewrites an owner record in the format of an older version of podrun, which does not
// support origins.
func olderOwner(s *rig.Supervised, name string) {
	s.T.Helper()
	path := s.Layout().Owner(identity.Pod{Namespace: "default", Name: name})
	data, err := os.ReadFile(path)
	if err != nil {
		s.T.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(data, &record); err != nil {
		s.T.Fatal(err)
	}
	delete(record, "origin")
	if data, err = json.Marshal(record); err != nil {
		s.T.Fatal(err)
	}
	if err := hostfile.WriteUnsynced(path, data, 0o600); err != nil {
		s.T.Fatal(err)
	}
}

// TestServeAfterADowngrade covers a pod that an older version of podrun, which does not record
// origins, applied while serve was not running. If the pod's file was removed during that time,
// serve must keep the pod. If the file is removed later, serve must delete the pod.
func TestServeAfterADowngrade(t *testing.T) {
	t.Parallel()
	for _, removed := range []bool{true, false} {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			s.Files.Write(rig.File("web"), rig.ServedPod("web"))
			time.Sleep(time.Minute)
			s.End()
			s.NoError(s.Delete(run.DeleteOptions{}, "web"))
			s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("web")))
			olderOwner(s, "web")
			if removed {
				s.Files.Remove(rig.File("web"))
			}
			web := s.Running("web")
			s.Start()
			time.Sleep(time.Hour)
			s.Same(web)
			if removed {
				s.NoSourceLeft()
				return
			}
			s.Files.Remove(rig.File("web"))
			time.Sleep(time.Minute)
			s.Absent("web")
		})
	}
}

// TestServeDeletesNoSuccessor covers a command that applies another pod of the same name after
// serve has decided to delete a pod whose file was removed, but before serve has acquired the pod's
// lock. serve must not delete the new pod.
func TestServeDeletesNoSuccessor(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1})
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.NoError(s.ApplyAll(t.Context(), changedPod("web")))
		}()
		time.Sleep(10 * time.Second)
		s.Files.Remove(rig.File("web"))
		<-done
		web := s.Running("web")
		time.Sleep(time.Minute)
		s.Same(web)
	})
}
