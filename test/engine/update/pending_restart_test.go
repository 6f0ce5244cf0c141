package update

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// clean is a program that runs until podrun stops it, and then exits with 0.
var clean = critest.Behavior{Forever: true, CleanTERM: true}

// restartable returns a pod with one container, which has the given image and additional
// fields.
func restartable(policy, image, more string) string {
	return rig.PodText("web", policy, "terminationGracePeriodSeconds: 5", "containers: [{name: web, image: registry.example/"+image+more+"}]")
}

// TestServeStartsChanged covers a container that serve killed because of its new image. When the
// image has been pulled, serve must restart the container, regardless of its restart policy and
// exit code.
func TestServeStartsChanged(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Never", "OnFailure"} {
		t.Run(policy, func(t *testing.T) {
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				s.Runtime.AddRemote(critest.Image{Name: "registry.example/app:new", Entrypoint: []string{"/server"}, PullDelay: 20 * time.Second})
				s.Runtime.Script("web", clean)
				s.Files.Write(rig.File("web"), restartable(policy, "app:1", ""))
				time.Sleep(time.Minute)
				s.Files.Write(rig.File("web"), restartable(policy, "app:new", ""))
				time.Sleep(2 * time.Minute)
				if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:new" {
					t.Errorf("image %s", c.Config.GetImage().GetUserSpecifiedImage())
				}
			})
		})
	}
}

// TestStartsUnhealthyAgain covers a container that podrun kills because of a probe, and that then
// exits with 0. It must not count as completed (run/lifecycle.TestInterruptedRestart: for each cause).
func TestStartsUnhealthyAgain(t *testing.T) {
	t.Parallel()
	probed := func(kind string) string {
		return restartable("OnFailure", "app:1", ", "+kind+": {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 1}")
	}
	unhealthy := func([]string) *critest.Exec { return &critest.Exec{ExitCode: 1} }
	t.Run("serve", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			s.Runtime.Script("web", clean)
			s.Runtime.ScriptExec("web", unhealthy)
			s.Files.Write(rig.File("web"), probed("livenessProbe"))
			time.Sleep(5 * time.Minute)
			if n := len(s.Starts("web")); n < 3 || s.Pod("web").Status.Phase != "Running" {
				t.Errorf("%d starts, phase %s; events %q", n, s.Pod("web").Status.Phase, s.Reasons())
			}
		})
	})
	t.Run("run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("web", clean)
			r.Runtime.ScriptExec("web", unhealthy)
			results, err := rig.RunPods(t.Context(), r.Engine(), rig.Load(t, probed("startupProbe")), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true, Timeout: 8 * time.Second}})
			if err != nil {
				t.Fatal(err)
			}
			rig.WantErr(t, results[0].Err, problem.Deadline, "has not completed")
			r.NothingLeft()
		})
	})
}

// TestServeResizesByRestart covers a container that podrun kills for a resize, and that then
// exits with 0: podrun must restart it with its new resources.
func TestServeResizesByRestart(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		with := func(memory string) string {
			return restartable("OnFailure", "app:1", ", resources: {limits: {memory: "+memory+"}}, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]")
		}
		s.Runtime.Script("web", clean)
		s.Files.Write(rig.File("web"), with("64Mi"))
		time.Sleep(time.Minute)
		s.Files.Write(rig.File("web"), with("128Mi"))
		time.Sleep(time.Minute)
		if c := s.Running("web"); c.Config.Linux.Resources.MemoryLimitInBytes != 128<<20 || len(s.Runtime.Sandboxes()) != 1 {
			t.Errorf("memory %d, %d sandboxes", c.Config.Linux.Resources.MemoryLimitInBytes, len(s.Runtime.Sandboxes()))
		}
		if !s.Emitted("ResizeCompleted", "") {
			t.Errorf("events %q", s.Reasons())
		}
	})
}

// TestKilledInARestart kills an apply with SIGKILL before or after it has stopped a container
// whose image changed. The next apply must start the container.
func TestKilledInARestart(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after: %v", after), func(t *testing.T) {
			r := rig.New(t)
			defer r.MustDelete()
			r.Runtime.Script("web", clean)
			r.MustApply(restartable("Never", "app:1", ""), run.OutcomeCreated)
			r.KillAt(rig.Step{Method: "StopContainer"}, after, restartable("Never", "app:2", ""))
			result := r.Apply(restartable("Never", "app:2", ""))
			if result.Err != nil || result.Outcome != run.OutcomeRestarted {
				t.Errorf("%s: %v", result.Outcome, result.Err)
			}
			if c, ok := r.Runtime.Container("web"); !ok || c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
				t.Errorf("container %+v", c)
			}
		})
	}
}

// TestCanceledStart covers containerd, which cancels the start of a container if the podrun process
// that requested the start is killed. The container has not failed, so the next command must start
// it, even if the killed process had stopped it for an update.
func TestCanceledStart(t *testing.T) {
	t.Parallel()
	for _, update := range []bool{false, true} {
		t.Run(fmt.Sprintf("update: %v", update), func(t *testing.T) {
			r := rig.New(t)
			defer r.MustDelete()
			r.Runtime.Script("web", clean)
			image := "app:1"
			if update {
				r.MustApply(restartable("Never", image, ""), run.OutcomeCreated)
				image = "app:2"
			}
			r.KillAt(rig.Step{Method: "StartContainer"}, false, restartable("Never", image, ""))
			before, _ := r.Runtime.Container("web")
			if !r.Runtime.CancelStart(before.ID) {
				t.Fatalf("container %+v", before)
			}
			if phase := r.Pod("web").Status.Phase; phase == "Failed" || phase == "Succeeded" {
				t.Errorf("phase %s", phase)
			}
			if result := r.Apply(restartable("Never", image, "")); result.Err != nil || result.Outcome != run.OutcomeRestarted {
				t.Errorf("%s: %v", result.Outcome, result.Err)
			}
			if c, ok := r.Runtime.Container("web"); !ok || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING || c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/"+image {
				t.Errorf("container %+v", c)
			}
		})
	}
}

// TestServeStartsChangedAfterFailures covers a killed container whose replacement cannot be
// started, and whose next replacement cannot be created. The pod must not terminate.
func TestServeStartsChangedAfterFailures(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Runtime.Script("web", clean)
		s.Files.Write(rig.File("web"), restartable("Never", "app:1", ""))
		time.Sleep(time.Minute)
		s.Runtime.Fault("StartContainer", critest.Fault{When: critest.Before, Times: 1})
		s.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Times: 1, Skip: 1})
		s.Files.Write(rig.File("web"), restartable("Never", "app:2", ""))
		time.Sleep(2 * time.Minute)
		if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("image %s", c.Config.GetImage().GetUserSpecifiedImage())
		}
	})
}

// TestServeKillsUnhealthyOnFullDisk checks that podrun kills and restarts an unhealthy container
// even if it cannot record either step. The kubelet does the same, because it keeps no such
// records.
func TestServeKillsUnhealthyOnFullDisk(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Runtime.Script("web", clean)
		s.Runtime.ScriptExec("web", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 1} })
		s.Files.Write(rig.File("web"), restartable("OnFailure", "app:1", ", livenessProbe: {exec: {command: [x]}, initialDelaySeconds: 60, failureThreshold: 1}"))
		time.Sleep(30 * time.Second)
		// A full file system returns the same error for every new file.
		dir := filepath.Dir(s.Layout().Pod(string(s.Pod("web").UID)).PendingRestarts())
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY, "size=4k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
		if n := len(s.Starts("web")); n < 2 {
			t.Errorf("%d starts; events %q, warnings %q", n, s.Reasons(), s.Warnings())
		}
		s.Running("web")
		if n := s.Warned("record the restarting containers"); n != 1 {
			t.Errorf("%d warnings: %q", n, s.Warnings())
		}
	})
}

// TestInterruptedRecreation covers a restart that is interrupted after it has killed a container with restartPolicy
// Never, and before it recreates the pod. The pod has not ended: the next owner starts the container again.
func TestInterruptedRecreation(t *testing.T) {
	t.Parallel()
	for method, when := range map[string]critest.When{"StopContainer": critest.EffectThenHang, "StopPodSandbox": critest.EffectThenHang, "RemovePodSandbox": critest.Hang} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.MustApply(rig.Web("Never"), run.OutcomeCreated)
				restore := r.Runtime.Fault(method, critest.Fault{When: when})
				results, err := rig.RestartPods(t.Context(), r.Engine(), r.Known(), run.ApplyOptions{Timeout: 5 * time.Second, AllowKubelet: true})
				if err != nil || len(results) != 1 || results[0].Err == nil {
					t.Fatalf("%+v, %v", results, err)
				}
				restore()
				if c, ok := r.Runtime.Container("app"); ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
					t.Fatal("the restart has not killed the container")
				}
				if views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{}); err != nil || len(views) != 1 || views[0].Object.Status.Phase != corev1.PodRunning {
					t.Errorf("the pod counts as ended: %+v, %v", views, err)
				}
				if result := r.Apply(rig.Web("Never")); result.Err != nil {
					t.Errorf("the next apply: %v", result.Err)
				}
				if c, _ := r.Runtime.Container("app"); c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
					t.Errorf("the container does not run: %v", c.State)
				}
				r.MustDelete()
				r.NothingLeft()
			})
		})
	}
}
