package engine

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
)

// wantMounts checks that everything that podrun creates for the mounts of a container exists. Unlike
// a container runtime, the fake does not create a directory for a missing path.
func wantMounts(t testing.TB, root string, mounts []*runtimeapi.Mount) {
	t.Helper()
	for _, m := range mounts {
		if !strings.HasPrefix(m.GetHostPath(), root+"/") {
			continue
		}
		info, err := os.Lstat(m.GetHostPath())
		switch file := m.GetContainerPath() == "/etc/hosts" || m.GetContainerPath() == "/dev/termination-log"; {
		case err != nil:
			t.Errorf("mount %s: %v", m.GetContainerPath(), err)
		case file != info.Mode().IsRegular():
			t.Errorf("mount %s: %s has the mode %v", m.GetContainerPath(), m.GetHostPath(), info.Mode())
		}
	}
}

// mountsAreSetUp checks the mounts of all running containers, and the hosts file that they mount.
func (r *rig) mountsAreSetUp() {
	r.t.Helper()
	for _, c := range r.rt.Containers() {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		wantMounts(r.t, r.settings.RootDir, c.Config.GetMounts())
		for _, m := range c.Config.GetMounts() {
			if text, err := os.ReadFile(m.GetHostPath()); m.GetContainerPath() == "/etc/hosts" && (err != nil || !strings.Contains(string(text), "127.0.0.1\tlocalhost\n")) {
				r.t.Errorf("the hosts file of %s: %q, %v", c.Name, text, err)
			}
		}
	}
}

// twoContainers is a pod of which each container mounts the hosts file.
func twoContainers(policy string) string {
	return podText("web", policy, "containers: [{name: app, image: registry.example/app:1}, {name: db, image: registry.example/db:1}]")
}

// TestHostsAreADirectory covers a pod whose /etc/hosts is a directory, because an earlier podrun was
// ended between RunPodSandbox and CreateContainer. The next pass restarts the containers that mount
// the directory, and only then replaces it. If podrun is interrupted in between, the next command
// completes the restart.
func TestHostsAreADirectory(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			hosts := r.layout().EtcHosts(string(r.mustApply(twoContainers("Always"), run.OutcomeCreated).ID.UID))
			if err := os.Remove(hosts); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(hosts, "left"), 0o755); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if interrupted {
				ctx, cancel := context.WithCancel(t.Context())
				r.rt.Fault("StopContainer", critest.Fault{When: critest.After, Skip: 0, Times: 1, Match: func(proto.Message) bool { cancel(); return true }})
				r.applyWithin(ctx, twoContainers("Always"), testTimeout)
			}
			begun := time.Now()
			if result := r.apply(twoContainers("Always")); result.Err != nil {
				t.Fatal(result.Err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("the restart took %s, as in a back-off", took)
			}
			r.mountsAreSetUp()
			restarts := map[string]uint32{}
			for _, c := range r.rt.Containers() {
				if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
					restarts[c.Name] = c.Config.GetMetadata().GetAttempt()
				}
			}
			if len(restarts) != 2 || restarts["app"] != 1 || restarts["db"] != 1 {
				t.Errorf("interrupted %v: the running containers have the restart counts %v", interrupted, restarts)
			}
			for _, name := range []string{"app", "db"} {
				if !r.emitted("Killing "+name, "its /etc/hosts is a directory, will be restarted") {
					t.Errorf("events %q", r.reasons())
				}
			}
			r.mustApply(twoContainers("Always"), run.OutcomeUnchanged)
			r.mustDelete()
		})
	}
}

// TestHostsDirectoryOfASupervisedPod checks that a supervisor restarts the containers once.
func TestHostsDirectoryOfASupervisedPod(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), twoContainers("Always"))
		time.Sleep(time.Minute)
		s.end()
		hosts := s.layout().EtcHosts(string(s.got("web").UID))
		if err := os.Remove(hosts); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(hosts, 0o755); err != nil {
			t.Fatal(err)
		}
		s.start()
		time.Sleep(time.Minute)
		s.mountsAreSetUp()
		for _, name := range []string{"app", "db"} {
			if attempt := s.running(name).Config.GetMetadata().GetAttempt(); attempt != 1 {
				t.Errorf("%s has the restart count %d", name, attempt)
			}
		}
	})
}

// TestHostsDirectoryOfAPodThatRunsOnce checks that podrun does not run a container twice whose
// restart policy is Never.
func TestHostsDirectoryOfAPodThatRunsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hosts := r.layout().EtcHosts(string(r.mustApply(one("Never"), run.OutcomeCreated).ID.UID))
	if err := os.Remove(hosts); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(hosts, 0o755); err != nil {
		t.Fatal(err)
	}
	r.mustApply(one("Never"), run.OutcomeUnchanged)
	if n := r.callsTo("CreateContainer"); n != 1 {
		t.Errorf("%d containers were created", n)
	}
	r.mustDelete()
}

// TestHostsAtEachStart checks that each start of a container writes the hosts file of the pod, so
// that a container that writes to the file does not affect containers that start later. The same
// applies to a file that cannot exist, because a container must not start without it.
func TestHostsAtEachStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		result := r.mustApply(twoContainers("Always"), run.OutcomeCreated)
		hosts := r.layout().EtcHosts(string(result.ID.UID))
		good, err := os.ReadFile(hosts)
		if err != nil {
			t.Fatal(err)
		}
		created := func(run func()) {
			t.Helper()
			r.exit("db", 1)
			time.Sleep(time.Hour)
			run()
		}
		if err := os.WriteFile(hosts, []byte("6.6.6.6\tregistry.example\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		created(func() { r.apply(twoContainers("Always")) })
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
		calls := r.callsTo("CreateContainer")
		created(func() {
			wantErr(t, r.applyWithin(t.Context(), twoContainers("Always"), 20*time.Second).Err, problem.Runtime, "pod default/web", "hosts file")
		})
		if n := r.callsTo("CreateContainer"); n != calls {
			t.Errorf("%d containers were created without the hosts file", n-calls)
		}
		if err := os.Remove(hosts); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		r.apply(twoContainers("Always"))
		r.mountsAreSetUp()
		r.mustDelete()
	})
}

// TestHostsOfAContainerCreatedAhead checks that podrun writes the hosts file when it starts a
// container that it created while the previous one ran.
func TestHostsOfAContainerCreatedAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("one", critest.Behavior{After: time.Minute})
		r.rt.Script("two", critest.Behavior{})
		hosts, read := "", ""
		r.rt.Fault("CreateContainer", critest.Fault{Match: func(m proto.Message) bool {
			config := m.(*runtimeapi.CreateContainerRequest).GetConfig()
			wantMounts(t, r.settings.RootDir, config.GetMounts())
			for _, mount := range config.GetMounts() {
				if mount.GetContainerPath() == "/etc/hosts" {
					hosts = mount.GetHostPath()
				}
			}
			return false
		}})
		starts := 0
		r.rt.Fault("StartContainer", critest.Fault{Match: func(proto.Message) bool {
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
			if two, ok := r.rt.Container("two"); !ok || two.State != runtimeapi.ContainerState_CONTAINER_CREATED {
				t.Error("the second init container was not created while the first one runs")
			}
			if err := os.WriteFile(hosts, []byte("6.6.6.6\tregistry.example\n"), 0o644); err != nil {
				t.Error(err)
			}
		}()
		r.mustApply(podText("web", "Always", "initContainers: [{name: one, image: registry.example/setup:1}, {name: two, image: registry.example/setup:1}]",
			"containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
		if !strings.Contains(read, "localhost") || strings.Contains(read, "6.6.6.6") {
			t.Errorf("the second init container reads %q", read)
		}
		r.mustDelete()
	})
}

// TestVolumeLostBeforeARestart checks that podrun sets up a volume again, if the volume is missing
// when a container is created.
func TestVolumeLostBeforeARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, volumeMounts: [{name: data, mountPath: /data}]}]", "volumes: [{name: data, emptyDir: {}}]")
		result := r.mustApply(text, run.OutcomeCreated)
		volumes := r.layout().Volumes(string(result.ID.UID))
		if err := os.RemoveAll(volumes); err != nil {
			t.Fatal(err)
		}
		r.exit("app", 1)
		time.Sleep(time.Hour)
		if result := r.apply(text); result.Err != nil {
			t.Fatal(result.Err)
		}
		r.mountsAreSetUp()
		r.mustDelete()
	})
}
