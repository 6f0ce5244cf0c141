package ownership

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox/cni"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/patience"
)

// TestDeleteOfLateSandbox covers a runtime that creates a sandbox, or a container, for a killed
// podrun process while the next process deletes the pod. After the delete has reported success, no
// further object may appear (faults.md, F5).
func TestDeleteOfLateSandbox(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"RunPodSandbox", "CreateContainer"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			late := r.KillLate(method, time.Second, rig.Job{Manifest: rig.Web("Always")})
			r.NoError(r.Delete(run.DeleteOptions{}))
			<-late
			r.NothingLeft()
		})
	}
}

// TestDeleteOfLateSandboxAfterAnotherOwner covers another podrun process, such as a supervisor, that
// acquired and lost the pod between the kill and the delete. The delete must still wait for the late
// call.
func TestDeleteOfLateSandboxAfterAnotherOwner(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	late := r.KillLate("RunPodSandbox", time.Second, rig.Job{Manifest: rig.Web("Always")})
	other, err := store.NewLocks(r.Layout(), "process 1 (podrun test)", func(problem.List) {}).LockPod(t.Context(), identity.Pod{Namespace: "default", Name: "web"}, store.PurposeRun)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := other.Owner()
	if err == nil {
		err = other.Acquire(owner.UID, store.PurposeRun, false, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !other.Killed {
		t.Error("the next owner does not know that the last one was killed")
	}
	other.Release()
	r.NoError(r.Delete(run.DeleteOptions{}))
	<-late
	r.NothingLeft()
}

// TestApplyOfLateSandbox covers a runtime that refuses to reuse the sandbox's name until it has
// completed the call of a killed podrun process. The next apply must wait, and use the result of
// that call.
func TestApplyOfLateSandbox(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"RunPodSandbox", "CreateContainer"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			late := r.KillLate(method, time.Second, rig.Job{Manifest: rig.Web("Always")})
			reserved := status.Error(codes.Unknown, `failed to reserve name: name "web" is reserved for "abc"`)
			r.Runtime.Fault(method, critest.Fault{When: critest.Before, Err: reserved, Match: func(proto.Message) bool {
				select {
				case <-late:
					return false
				default:
					// the call is in progress
					return true
				}
			}})
			if result := r.Apply(rig.Web("Always")); result.Err != nil {
				t.Fatalf("the next apply: %v", result.Err)
			}
			<-late
			r.OneReadySandbox()
			r.MustApply(rig.Web("Always"), run.OutcomeUnchanged)
			r.MustDelete()
		})
	}
}

// TestRemoveWhileStarting covers a container that containerd refuses to remove, because it is still
// starting the container for a killed podrun process.
func TestRemoveWhileStarting(t *testing.T) {
	t.Parallel()
	starting := status.Error(codes.Unknown, `failed to remove container "c": failed to set removing state for container "c": container is in starting state, can't be removed`)
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.Runtime.Fault("RemovePodSandbox", critest.Fault{When: critest.Before, Err: starting, Times: 3})
	r.MustDelete()
	if n := r.CallsTo("RemovePodSandbox"); n != 4 {
		t.Errorf("%d calls", n)
	}
}

// TestApplyAfterAnInterruptedStop covers a sandbox that a killed podrun process was stopping. The
// runtime reports it as ready until it has completed that call, and no container can be created in
// it.
func TestApplyAfterAnInterruptedStop(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.Runtime.ForgetCalls()
	// At that time, the apply has already listed the sandbox.
	late := r.KillLate("StopPodSandbox", 4*time.Second,
		rig.Job{Stop: true})
	r.Runtime.ForgetCalls()
	if result := r.Apply(rig.Web("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	rig.WantChanges(t, r.Runtime, "StopPodSandbox", "StopPodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app")
	<-late
	r.OneReadySandbox()
	r.MustDelete()
}

// TestApplyAfterAStopThatIsRecordedLate covers a busy host, where containerd records the exit
// of a container only some time after StopContainer has returned. The next apply must not
// consider the container running (random kills, seed 500: stop, then apply).
func TestApplyAfterAStopThatIsRecordedLate(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	// At that time, the apply has already listed the container.
	r.KillLate("StopContainer", 4*time.Second,
		rig.Job{Stop: true})
	r.Runtime.ForgetCalls()
	r.Runtime.Fault("StopContainer", critest.Fault{When: critest.AlreadyEnded, Times: 1})
	if result := r.Apply(rig.Web("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	rig.WantChanges(t, r.Runtime, "StopContainer app", "CreateContainer app", "StartContainer app")
	r.MustDelete()
}

// TestTaskOfALateSandbox covers containerd 2, which may create a sandbox for a podrun process that
// was already killed. containerd keeps the task of this sandbox even if the sandbox is removed. The
// next command must delete the task.
func TestTaskOfALateSandbox(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"apply", "delete"} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.KillLate("RunPodSandbox", time.Second, rig.Job{Manifest: rig.Web("Always")})
			patience.Wait(t, patience.OnFake, "a sandbox exists", func() bool { return len(r.Runtime.Sandboxes()) > 0 })
			for _, sb := range r.Runtime.Sandboxes() {
				r.Runtime.LeaveSandboxTask(sb.ID)
			}
			if len(r.Runtime.SandboxTasks()) != 1 {
				t.Fatalf("%d tasks, want 1", len(r.Runtime.SandboxTasks()))
			}
			next := r.Engine()
			next.Client = r.Dial()
			job := rig.Job{}
			if then == "apply" {
				job.Manifest = rig.Web("Always")
			}
			if err := job.Do(t.Context(), next); err != nil {
				t.Fatalf("%s: %v", then, err)
			}
			if tasks := r.Runtime.SandboxTasks(); len(tasks) > 0 {
				t.Errorf("tasks are left: %v", tasks)
			}
			r.MustDelete()
		})
	}
}

// TestDeleteAwaitsRelease covers a runtime that was creating a sandbox for a killed podrun process,
// and is still releasing the sandbox's network. Delete must remove leftovers of network plugins
// only after this release, because the plugins' DEL fails if its rules no longer exist. If the
// runtime never completes, delete must remove them nevertheless.
func TestDeleteAwaitsRelease(t *testing.T) {
	t.Parallel()
	for name, releases := range map[string]bool{"released": true, "never released": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.KillLate("RunPodSandbox", time.Second, rig.Job{Manifest: rig.Web("Always")})
			result := attachment(r)
			released := make(chan time.Time, 1)
			if releases {
				time.AfterFunc(4*time.Second, func() {
					before := time.Now()
					if err := os.Remove(result); err != nil {
						t.Errorf("it was removed before the runtime had released the network: %v", err)
					}
					released <- before
				})
			}
			r.MustDelete()
			if releases {
				if ended := time.Now(); ended.Before(<-released) {
					t.Error("delete ended before the runtime had released the network")
				}
			} else if _, err := os.Stat(result); !os.IsNotExist(err) {
				t.Errorf("the attachment is left: %v", err)
			}
		})
	}
}

// attachment creates a libcni file, as if the pod had a network, and returns its path.
func attachment(r *rig.Host) string {
	r.T.Helper()
	known := r.Known()
	if len(known) != 1 {
		r.T.Fatalf("%d pods", len(known))
	}
	id := known[0].ID
	sandbox := fmt.Sprintf("%x", sha256.Sum256([]byte(r.Settings.RootDir)))
	data, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "networkName": "podrun-ut", "containerId": sandbox, "ifName": "eth0",
		"cniArgs": [][2]string{{"K8S_POD_NAMESPACE", id.Namespace}, {"K8S_POD_NAME", id.Name}, {"K8S_POD_UID", id.UID}},
		"capabilityArgs": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{
			identity.AnnotationManagedBy: identity.ManagedBy, identity.AnnotationRootDir: r.Settings.RootDir}},
	})
	if err != nil {
		r.T.Fatal(err)
	}
	if err := os.MkdirAll(cni.ResultsDir, 0o755); err != nil {
		r.T.Fatal(err)
	}
	path := filepath.Join(cni.ResultsDir, "podrun-ut-"+sandbox+"-eth0")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { os.Remove(path) })
	return path
}
