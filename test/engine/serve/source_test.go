package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

func TestServeAddAndRemove(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		time.Sleep(time.Minute)
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(2 * time.Second)
		c := s.Running("web")
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(time.Hour)
		s.Same(c)
		db := s.Running("db")
		s.Files.Remove(rig.File("web"))
		time.Sleep(10 * time.Second)
		s.Absent("web")
		s.Same(db)
		s.WantStarts("web", 1)
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(2 * time.Second)
		s.Running("web")
	})
}

// TestServeKnowsTheSourceFirst checks that a supervisor records the file that defines a new pod
// before it creates the pod. Otherwise, if the supervisor is killed and the file is then removed,
// the next supervisor would keep the pod (the crash sweep's serve/cri/ImageStatus/after#2/gone).
func TestServeKnowsTheSourceFirst(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		time.Sleep(time.Minute)
		var calls int
		unknown := map[string]bool{}
		for _, method := range []string{"ListPodSandbox", "ListContainers", "ImageStatus", "RunPodSandbox"} {
			s.Runtime.Fault(method, critest.Fault{Match: func(proto.Message) bool {
				pods, err := store.StoredPods(s.Layout())
				if err != nil {
					t.Error(err)
				}
				for _, id := range pods {
					calls++
					record, err := store.ReadSource(s.Layout(), identity.Pod{Namespace: id.Namespace, Name: id.Name})
					if record == nil || err != nil {
						unknown[method] = true
					}
				}
				return false
			}})
		}
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(2 * time.Second)
		s.Running("web")
		if calls == 0 || len(unknown) > 0 {
			t.Errorf("of %d calls after the pod got its checkpoint, these were made before its source was recorded: %v", calls, unknown)
		}
	})
}

// TestServeReplacesWhileSourcesAreRead covers a read of the directories during the replacement of a pod, for
// example because another file changes. The read must not end the replacement, because the supervisor would
// then delete the pod and create another one without its history and events.
func TestServeReplacesWhileSourcesAreRead(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.Running("web")
		s.Runtime.Fault("StopContainer", critest.Fault{When: critest.Slow, Delay: 3 * time.Second, Times: 1})
		s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1}", "app:1, args: [x]}", 1))
		time.Sleep(time.Second)
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(time.Minute)
		s.Running("web")
		s.Running("db")
		id := s.Known("web")[0].ID
		revisions, err := run.History(s.Engine(), id)
		if err != nil || len(revisions) != 2 {
			t.Errorf("the history has %d revisions, want 2: %v", len(revisions), err)
		}
		events, err := store.ReadJournal(s.Layout(), id.UID)
		if err != nil || !slices.ContainsFunc(events, func(e event.Event) bool { return e.Reason == event.KillingContainer }) {
			t.Errorf("the events of the replaced pod are lost: %v, %v", events, err)
		}
	})
}

// TestServeReplacementIsDeleted covers a command that deletes a pod while the supervisor is replacing it, and
// a file that is removed during a replacement. Both must take effect.
func TestServeReplacementIsDeleted(t *testing.T) {
	t.Parallel()
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprintf("removed=%t", removed), func(t *testing.T) {
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				time.Sleep(time.Minute)
				s.Runtime.Fault("StopContainer", critest.Fault{When: critest.Slow, Delay: 3 * time.Second, Times: 1})
				s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1}", "app:1, args: [x]}", 1))
				time.Sleep(time.Second)
				if removed {
					s.Files.Remove(rig.File("web"))
					time.Sleep(time.Minute)
					s.Absent("web")
					return
				}
				s.NoError(s.Delete(run.DeleteOptions{}, "web"))
				time.Sleep(time.Minute)
				if args := s.Running("web").Config.GetArgs(); !slices.Equal(args, []string{"x"}) {
					t.Errorf("the pod runs with %q", args)
				}
			})
		})
	}
}

// TestServeUpdate checks that serve updates the pod in place if the API permits it, and
// otherwise replaces the pod. It must not affect other pods.
func TestServeUpdate(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(time.Minute)
		db := s.Running("db")
		box := s.Running("web").SandboxID
		s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "app:2", 1))
		time.Sleep(10 * time.Second)
		c := s.Running("web")
		if c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" || c.SandboxID != box {
			t.Errorf("after a new image: %s in another sandbox: %v", c.Config.GetImage(), c.SandboxID != box)
		}
		s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "app:2, args: [x]", 1))
		time.Sleep(10 * time.Second)
		if c := s.Running("web"); len(c.Config.GetArgs()) != 1 || c.SandboxID == box {
			t.Errorf("after new arguments: %v, in another sandbox: %v", c.Config.GetArgs(), c.SandboxID != box)
		}
		s.WantStarts("web", 3)
		s.Same(db)
		s.WantStarts("db", 1)
	})
}

// TestServeUnreachable checks that a source that cannot be read does not count as removed, even
// after a restart of serve, which then does not have the previous content.
func TestServeUnreachable(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(time.Minute)
		web, db := s.Running("web"), s.Running("db")
		s.Files.Reach(rig.ManifestDir, false)
		time.Sleep(time.Hour)
		s.Same(web)
		s.Exit("db", 1)
		time.Sleep(5 * time.Second)
		if c := s.Running("db"); c.ID == db.ID {
			t.Error("a pod of an unreachable directory was not supervised")
		}
		s.End()
		s.Files.Forget()
		s.Start()
		time.Sleep(time.Hour)
		s.Same(web)
		s.NoError(s.Delete(run.DeleteOptions{}, "web"))
		time.Sleep(time.Minute)
		// serve must not recreate the pod until it can read the source.
		s.Absent("web")
		s.Files.Reach(rig.ManifestDir, true)
		time.Sleep(2 * time.Second)
		s.Running("web")
		s.Files.Reach(rig.ManifestDir, false)
		s.Files.Remove(rig.File("web"))
		s.Files.Remove(rig.File("db"))
		time.Sleep(time.Minute)
		s.Running("web")
		s.Files.Reach(rig.ManifestDir, true)
		time.Sleep(10 * time.Second)
		s.Absent("web")
		s.Absent("db")
	})
}

// TestServeBrokenFile checks that the pod of an invalid file remains unchanged, and that
// changes of other files take effect.
func TestServeBrokenFile(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		web := s.Running("web")
		s.Files.Break(rig.File("web"))
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(time.Minute)
		s.Same(web)
		s.Running("db")
		s.End()
		s.Files.Forget()
		s.Start()
		time.Sleep(time.Hour)
		s.Same(web)
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.Same(web)
	})
}

// TestServeSameNameTwice checks that the first of two files with a pod of the same name takes
// precedence, and that serve keeps the pod while one of them defines it.
func TestServeSameNameTwice(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("b"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		web := s.Running("web")
		s.Files.Write(rig.File("a"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.Same(web)
		s.Files.Remove(rig.File("b"))
		time.Sleep(time.Minute)
		s.Same(web)
		s.Files.Remove(rig.File("a"))
		time.Sleep(time.Minute)
		s.Absent("web")
	})
}

// TestServeCopyOfAFile checks that a copy of a pod's file does not change the pod, whatever its name, also
// after a restart of serve and after the pod has ended, until the pod's file is removed.
func TestServeCopyOfAFile(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		text := strings.Replace(rig.ServedPod("web"), "restartPolicy: Always", "restartPolicy: Never", 1)
		s.Files.Write(rig.File("web"), text)
		time.Sleep(time.Minute)
		web := s.Running("web")
		s.Files.Write(rig.File("web-copy"), strings.Replace(text, "app:1", "app:2", 1))
		time.Sleep(time.Minute)
		s.Same(web)
		if !s.Emitted("DefinitionIgnored", rig.File("web-copy")) || s.Warned("an object with the same name") != 1 {
			t.Errorf("warnings %q, events %q", s.Warnings(), s.Reasons())
		}
		s.Restart()
		time.Sleep(time.Minute)
		s.Same(web)
		if err := s.Runtime.Exit("web", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.Restart()
		time.Sleep(time.Minute)
		s.WantStarts("web", 1)
		s.Files.Remove(rig.File("web"))
		time.Sleep(time.Minute)
		if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("it runs %s", c.Config.GetImage())
		}
	})
}

// TestServeConfigMap checks that serve updates the files of volumes, and restarts the pod only if
// the pod requests a restart.
func TestServeConfigMap(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			text := rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5",
				"containers: [{name: web, image: registry.example/app:1, volumeMounts: [{name: config, mountPath: /config}]}]",
				"volumes: [{name: config, configMap: {name: config}}]")
			if restarts {
				text = strings.Replace(text, "{name: web}", `{name: web, annotations: {podrun.dev/restart-on-change: "true"}}`, 1)
			}
			config := func(v string) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {key: " + v + "}"
			}
			s.Files.Write(rig.File("config"), config("one"))
			s.Files.Write(rig.File("web"), text)
			time.Sleep(time.Minute)
			web := s.Running("web")
			if got := s.VolumeFile(web, "/config", "key"); got != "one" {
				t.Errorf("the volume has %q", got)
			}
			s.Files.Write(rig.File("config"), config("two"))
			time.Sleep(5 * time.Second)
			if !restarts {
				s.Same(web)
			} else {
				time.Sleep(5 * time.Second)
				if s.Running("web").ID == web.ID {
					t.Error("it was not restarted")
				}
			}
			if got := s.VolumeFile(s.Running("web"), "/config", "key"); got != "two" {
				t.Errorf("after the change the volume has %q", got)
			}
			time.Sleep(time.Hour)
			want := 1
			if restarts {
				want = 2
			}
			s.WantStarts("web", want)
		})
	}
}

// TestServeImageLater covers a pod whose image cannot be pulled: it must wait with the
// kubelet's back-off, and the other pods must not wait.
func TestServeImageLater(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("late"), rig.PodText("late", "Always", "containers: [{name: late, image: registry.example/late:1}, {name: other, image: registry.example/app:1}]"))
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(20 * time.Second)
		s.Running("web")
		// As in the kubelet, podrun continues with the next container.
		s.Running("other")
		s.Absent("late")
		time.Sleep(10 * time.Minute)
		s.Runtime.AddRemote(critest.Image{Name: "registry.example/late:1", Entrypoint: []string{"/server"}})
		time.Sleep(5*time.Minute + 5*time.Second)
		s.Running("late")
		pulls := 0
		for _, c := range s.Runtime.Calls() {
			if c.Method == "PullImage" {
				pulls++
			}
		}
		// The pulls are after 0, 10, 30, 70, 150, 310 and 610 s.
		if pulls < 6 || pulls > 10 {
			t.Errorf("%d pulls", pulls)
		}
		s.WantStarts("other", 1)
	})
}

// TestServeUpdateOfAMissingImage covers a command that gives a container another image while the
// pull of the previous one is backing off. The command fails to start the container. The supervisor
// then continues with the new definition, and must start the container with the new image instead
// of waiting for the previous one.
func TestServeUpdateOfAMissingImage(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		text := rig.PodText("late", "Always", "containers: [{name: late, image: registry.example/late:1}, {name: other, image: registry.example/app:1}]")
		s.Files.Write(rig.File("late"), text)
		time.Sleep(20 * time.Second)
		s.Absent("late")
		clear := s.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: status.Error(codes.Unknown, "refused")})
		results, err := s.ApplyAll(t.Context(), strings.Replace(text, "late:1", "app:2", 1))
		if err != nil || len(results) != 1 || results[0].Err == nil {
			t.Fatalf("the command started the container: %v, %v", results, err)
		}
		clear()
		time.Sleep(time.Minute)
		if c := s.Running("late"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("it runs %s", c.Config.GetImage())
		}
	})
}

// TestServeRefused checks that a pod that this host cannot run waits until another one
// terminates.
func TestServeRefused(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		port := func(name string) string {
			return rig.PodText(name, "Always", "terminationGracePeriodSeconds: 5", "containers: [{name: "+name+", image: registry.example/app:1, ports: [{containerPort: 80, hostPort: 18999}]}]")
		}
		s.Files.Write(rig.File("a"), port("first"))
		time.Sleep(time.Minute)
		first := s.Running("first")
		s.Files.Write(rig.File("b"), port("second"))
		time.Sleep(10 * time.Minute)
		s.Absent("second")
		s.Same(first)
		if n := s.Warned("18999"); n != 1 {
			t.Errorf("the refusal was reported %d times: %q", n, s.Warnings())
		}
		s.Files.Remove(rig.File("a"))
		time.Sleep(7 * time.Second)
		s.Absent("first")
		s.Running("second")
		// If podrun refuses a new definition, the old pod must continue to run.
		s.Files.Write(rig.File("a"), rig.ServedPod("first"))
		time.Sleep(time.Minute)
		first = s.Running("first")
		s.Files.Write(rig.File("a"), port("first"))
		time.Sleep(10 * time.Minute)
		s.Same(first)
		s.NoError(s.Delete(run.DeleteOptions{}, "second"))
		// Either pod may have the port at this time; no other pod terminates.
		time.Sleep(time.Minute)
		s.Files.Remove(rig.File("b"))
		time.Sleep(2 * time.Minute)
		if c := s.Running("first"); c.ID == first.ID {
			t.Error("the new definition was not applied")
		}
		s.Absent("second")
	})
}
