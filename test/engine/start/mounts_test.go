package start

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// twoContainers is a pod of which each container mounts the hosts file.
func twoContainers(policy string) string {
	return rig.PodText("web", policy, "containers: [{name: app, image: registry.example/app:1}, {name: db, image: registry.example/db:1}]")
}

// TestHostsAreADirectory covers a pod whose /etc/hosts is a directory, because an earlier podrun was
// ended between RunPodSandbox and CreateContainer. The next pass restarts the containers that mount
// the directory, and only then replaces it. If podrun is interrupted in between, the next command
// completes the restart.
func TestHostsAreADirectory(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			hosts := r.Layout().Pod(string(r.MustApply(twoContainers("Always"), run.OutcomeCreated).ID.UID)).EtcHosts()
			if err := os.Remove(hosts); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(hosts, "left"), 0o755); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if interrupted {
				ctx, cancel := context.WithCancel(t.Context())
				r.Runtime.Fault("StopContainer", critest.Fault{When: critest.After, Skip: 0, Times: 1, Match: func(proto.Message) bool { cancel(); return true }})
				r.ApplyWithin(ctx, twoContainers("Always"), rig.Timeout)
			}
			begun := time.Now()
			if result := r.Apply(twoContainers("Always")); result.Err != nil {
				t.Fatal(result.Err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("the restart took %s, as in a back-off", took)
			}
			r.MountsAreSetUp()
			restarts := map[string]uint32{}
			for _, c := range r.Runtime.Containers() {
				if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
					restarts[c.Name] = c.Config.GetMetadata().GetAttempt()
				}
			}
			if len(restarts) != 2 || restarts["app"] != 1 || restarts["db"] != 1 {
				t.Errorf("interrupted %v: the running containers have the restart counts %v", interrupted, restarts)
			}
			for _, name := range []string{"app", "db"} {
				if !r.Emitted("Killing "+name, "its /etc/hosts is a directory, will be restarted") {
					t.Errorf("events %q", r.Reasons())
				}
			}
			r.MustApply(twoContainers("Always"), run.OutcomeUnchanged)
			r.MustDelete()
		})
	}
}

// TestHostsDirectoryOfASupervisedPod checks that a supervisor restarts the containers once.
func TestHostsDirectoryOfASupervisedPod(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), twoContainers("Always"))
		time.Sleep(time.Minute)
		s.End()
		hosts := s.Layout().Pod(string(s.Pod("web").UID)).EtcHosts()
		if err := os.Remove(hosts); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(hosts, 0o755); err != nil {
			t.Fatal(err)
		}
		s.Start()
		time.Sleep(time.Minute)
		s.MountsAreSetUp()
		for _, name := range []string{"app", "db"} {
			if attempt := s.Running(name).Config.GetMetadata().GetAttempt(); attempt != 1 {
				t.Errorf("%s has the restart count %d", name, attempt)
			}
		}
	})
}

// TestHostsDirectoryOfAPodThatRunsOnce checks that podrun does not run a container twice whose
// restart policy is Never.
func TestHostsDirectoryOfAPodThatRunsOnce(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	hosts := r.Layout().Pod(string(r.MustApply(rig.Web("Never"), run.OutcomeCreated).ID.UID)).EtcHosts()
	if err := os.Remove(hosts); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(hosts, 0o755); err != nil {
		t.Fatal(err)
	}
	r.MustApply(rig.Web("Never"), run.OutcomeUnchanged)
	if n := r.CallsTo("CreateContainer"); n != 1 {
		t.Errorf("%d containers were created", n)
	}
	r.MustDelete()
}

// TestHostsAtEachStart checks that each start of a container writes the hosts file of the pod, so
// that a container that writes to the file does not affect containers that start later. The same
// applies to a file that cannot exist, because a container must not start without it.
func TestHostsAtEachStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		result := r.MustApply(twoContainers("Always"), run.OutcomeCreated)
		hosts := r.Layout().Pod(string(result.ID.UID)).EtcHosts()
		good, err := os.ReadFile(hosts)
		if err != nil {
			t.Fatal(err)
		}
		created := func(run func()) {
			t.Helper()
			r.Exit("db", 1)
			time.Sleep(time.Hour)
			run()
		}
		if err := os.WriteFile(hosts, []byte("6.6.6.6\tregistry.example\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		created(func() { r.Apply(twoContainers("Always")) })
		if now, err := os.ReadFile(hosts); err != nil || string(now) != string(good) {
			t.Errorf("after a restart: %q, %v", now, err)
		}
		// A start without the file fails. Only root can remove the socket or FIFO in its place.
		if err := os.Remove(hosts); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/null", hosts); err != nil {
			t.Fatal(err)
		}
		calls := r.CallsTo("CreateContainer")
		created(func() {
			rig.WantErr(t, r.ApplyWithin(t.Context(), twoContainers("Always"), 20*time.Second).Err, problem.Runtime, "pod default/web", "hosts file")
		})
		if n := r.CallsTo("CreateContainer"); n != calls {
			t.Errorf("%d containers were created without the hosts file", n-calls)
		}
		if err := os.Remove(hosts); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		r.Apply(twoContainers("Always"))
		r.MountsAreSetUp()
		r.MustDelete()
	})
}

// TestHostsOfAContainerCreatedAhead checks that podrun writes the hosts file when it starts a
// container that it created while the previous one ran.
func TestHostsOfAContainerCreatedAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("one", critest.Behavior{After: time.Minute})
		r.Runtime.Script("two", critest.Behavior{})
		hosts, read := "", ""
		r.Runtime.Fault("CreateContainer", critest.Fault{Match: func(m proto.Message) bool {
			config := m.(*runtimeapi.CreateContainerRequest).GetConfig()
			rig.WantMounts(t, r.Settings.RootDir, config.GetMounts())
			for _, mount := range config.GetMounts() {
				if mount.GetContainerPath() == "/etc/hosts" {
					hosts = mount.GetHostPath()
				}
			}
			return false
		}})
		starts := 0
		r.Runtime.Fault("StartContainer", critest.Fault{Match: func(proto.Message) bool {
			if starts++; starts != 2 {
				return false
			}
			text, err := os.ReadFile(hosts)
			if err != nil {
				t.Error(err)
			}
			read = string(text)
			return false
		}})
		go func() {
			time.Sleep(30 * time.Second)
			if two, ok := r.Runtime.Container("two"); !ok || two.State != runtimeapi.ContainerState_CONTAINER_CREATED {
				t.Error("the second init container was not created while the first one runs")
			}
			if err := os.WriteFile(hosts, []byte("6.6.6.6\tregistry.example\n"), 0o644); err != nil {
				t.Error(err)
			}
		}()
		r.MustApply(rig.PodText("web", "Always", "initContainers: [{name: one, image: registry.example/setup:1}, {name: two, image: registry.example/setup:1}]",
			"containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
		if !strings.Contains(read, "localhost") || strings.Contains(read, "6.6.6.6") {
			t.Errorf("the second init container reads %q", read)
		}
		r.MustDelete()
	})
}

// TestVolumeLostBeforeARestart checks that podrun sets up a volume again, if the volume is missing
// when a container is created.
func TestVolumeLostBeforeARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, volumeMounts: [{name: data, mountPath: /data}]}]", "volumes: [{name: data, emptyDir: {}}]")
		result := r.MustApply(text, run.OutcomeCreated)
		volumes := r.Layout().Pod(string(result.ID.UID)).Volumes()
		if err := os.RemoveAll(volumes); err != nil {
			t.Fatal(err)
		}
		r.Exit("app", 1)
		time.Sleep(time.Hour)
		if result := r.Apply(text); result.Err != nil {
			t.Fatal(result.Err)
		}
		r.MountsAreSetUp()
		r.MustDelete()
	})
}
