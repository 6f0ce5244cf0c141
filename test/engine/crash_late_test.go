package engine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/podrun/podrun/test/patience"
)

// killLate runs a job in a separate process, and kills the process while the runtime executes a
// call of the given method. When the delay has passed since the kill, the call takes effect, and late is closed.
func (r *rig) killLate(method string, delay time.Duration, do childJob) (late <-chan struct{}) {
	r.t.Helper()
	socket := filepath.Join(r.t.TempDir(), "cri.sock")
	stop, err := r.rt.Serve(socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(stop)
	do.Endpoint, do.Settings = "unix://"+socket, r.settings
	job, err := json.Marshal(do)
	if err != nil {
		r.t.Fatal(err)
	}
	child := exec.CommandContext(r.t.Context(), os.Args[0], "-test.run=^TestHelperPodrun$")
	child.Env = append(os.Environ(), childEnv+"="+string(job))
	done, gate := make(chan struct{}), make(chan struct{})
	r.t.Cleanup(r.rt.Fault(method, critest.Fault{When: critest.Late, Delay: delay, Times: 1, Gate: gate, Done: func() { close(done) }}))
	if err := child.Start(); err != nil {
		r.t.Fatal(err)
	}
	patience.Wait(r.t, patience.OnRuntime, "the child calls "+method, func() bool { return r.callsTo(method) > 0 })
	// the test checks the exit state of the process
	_ = child.Process.Kill()
	if err := child.Wait(); err == nil || r.callsTo(method) == 0 {
		r.t.Fatalf("the child was not killed in %s", method)
	}
	close(gate)
	return done
}

// TestDeleteOfLateSandbox covers a runtime that creates a sandbox, or a container, for a killed
// podrun process while the next process deletes the pod. After the delete has reported success, no
// further object may appear (faults.md, F5).
func TestDeleteOfLateSandbox(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"RunPodSandbox", "CreateContainer"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			late := r.killLate(method, time.Second, childJob{Manifest: one("Always")})
			r.noError(r.delete(run.DeleteOptions{}))
			<-late
			r.nothingLeft()
		})
	}
}

// TestDeleteOfLateSandboxAfterAnotherOwner covers another podrun process, such as a supervisor, that
// acquired and lost the pod between the kill and the delete. The delete must still wait for the late
// call.
func TestDeleteOfLateSandboxAfterAnotherOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := r.killLate("RunPodSandbox", time.Second, childJob{Manifest: one("Always")})
	other, err := store.NewLocks(r.layout(), "process 1 (podrun test)", func(problem.List) {}).LockPod(t.Context(), identity.Pod{Namespace: "default", Name: "web"}, store.PurposeRun)
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
	r.noError(r.delete(run.DeleteOptions{}))
	<-late
	r.nothingLeft()
}

// TestApplyOfLateSandbox covers a runtime that refuses to reuse the sandbox's name until it has
// completed the call of a killed podrun process. The next apply must wait, and use the result of
// that call.
func TestApplyOfLateSandbox(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"RunPodSandbox", "CreateContainer"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			late := r.killLate(method, time.Second, childJob{Manifest: one("Always")})
			reserved := status.Error(codes.Unknown, `failed to reserve name: name "web" is reserved for "abc"`)
			r.rt.Fault(method, critest.Fault{When: critest.Before, Err: reserved, Match: func(proto.Message) bool {
				select {
				case <-late:
					return false
				default:
					// the call is in progress
					return true
				}
			}})
			if result := r.apply(one("Always")); result.Err != nil {
				t.Fatalf("the next apply: %v", result.Err)
			}
			<-late
			r.oneReadySandbox()
			r.mustApply(one("Always"), run.OutcomeUnchanged)
			r.mustDelete()
		})
	}
}

// TestRemoveWhileStarting covers a container that containerd refuses to remove, because it is still
// starting the container for a killed podrun process.
func TestRemoveWhileStarting(t *testing.T) {
	t.Parallel()
	starting := status.Error(codes.Unknown, `failed to remove container "c": failed to set removing state for container "c": container is in starting state, can't be removed`)
	r := newRig(t)
	r.mustApply(one("Always"), run.OutcomeCreated)
	r.rt.Fault("RemovePodSandbox", critest.Fault{When: critest.Before, Err: starting, Times: 3})
	r.mustDelete()
	if n := r.callsTo("RemovePodSandbox"); n != 4 {
		t.Errorf("%d calls", n)
	}
}

// TestApplyAfterAnInterruptedStop covers a sandbox that a killed podrun process was stopping. The
// runtime reports it as ready until it has completed that call, and no container can be created in
// it.
func TestApplyAfterAnInterruptedStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(one("Always"), run.OutcomeCreated)
	r.rt.ForgetCalls()
	// At that time, the apply has already listed the sandbox.
	late := r.killLate("StopPodSandbox", 4*time.Second,
		childJob{Stop: true})
	r.rt.ForgetCalls()
	if result := r.apply(one("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	wantChanges(t, r.rt, "StopPodSandbox", "StopPodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app")
	<-late
	r.oneReadySandbox()
	r.mustDelete()
}

// TestApplyAfterAStopThatIsRecordedLate covers a busy host, where containerd records the exit
// of a container only some time after StopContainer has returned. The next apply must not
// consider the container running (random kills, seed 500: stop, then apply).
func TestApplyAfterAStopThatIsRecordedLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(one("Always"), run.OutcomeCreated)
	// At that time, the apply has already listed the container.
	r.killLate("StopContainer", 4*time.Second,
		childJob{Stop: true})
	r.rt.ForgetCalls()
	r.rt.Fault("StopContainer", critest.Fault{When: critest.AlreadyEnded, Times: 1})
	if result := r.apply(one("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	wantChanges(t, r.rt, "StopContainer app", "CreateContainer app", "StartContainer app")
	r.mustDelete()
}

// TestTaskOfALateSandbox covers containerd 2, which may create a sandbox for a podrun process that
// was already killed. containerd keeps the task of this sandbox even if the sandbox is removed. The
// next command must delete the task.
func TestTaskOfALateSandbox(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"apply", "delete"} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.killLate("RunPodSandbox", time.Second, childJob{Manifest: one("Always")})
			patience.Wait(t, patience.OnFake, "a sandbox exists", func() bool { return len(r.rt.Sandboxes()) > 0 })
			for _, sb := range r.rt.Sandboxes() {
				r.rt.LeaveSandboxTask(sb.ID)
			}
			if len(r.rt.SandboxTasks()) != 1 {
				t.Fatalf("%d tasks, want 1", len(r.rt.SandboxTasks()))
			}
			next := r.engine()
			next.Client = r.dial()
			job := childJob{}
			if then == "apply" {
				job.Manifest = one("Always")
			}
			if err := job.do(t, next); err != nil {
				t.Fatalf("%s: %v", then, err)
			}
			if tasks := r.rt.SandboxTasks(); len(tasks) > 0 {
				t.Errorf("tasks are left: %v", tasks)
			}
			r.mustDelete()
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
			r := newRig(t)
			r.killLate("RunPodSandbox", time.Second, childJob{Manifest: one("Always")})
			result := r.attachment()
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
			r.mustDelete()
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
func (r *rig) attachment() string {
	r.t.Helper()
	known := r.known()
	if len(known) != 1 {
		r.t.Fatalf("%d pods", len(known))
	}
	id := known[0].ID
	sandbox := fmt.Sprintf("%x", sha256.Sum256([]byte(r.settings.RootDir)))
	data, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "networkName": "podrun-ut", "containerId": sandbox, "ifName": "eth0",
		"cniArgs": [][2]string{{"K8S_POD_NAMESPACE", id.Namespace}, {"K8S_POD_NAME", id.Name}, {"K8S_POD_UID", id.UID}},
		"capabilityArgs": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{
			identity.AnnotationManagedBy: identity.ManagedBy, identity.AnnotationRootDir: r.settings.RootDir}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.MkdirAll(cni.ResultsDir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(cni.ResultsDir, "podrun-ut-"+sandbox+"-eth0")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { os.Remove(path) })
	return path
}
