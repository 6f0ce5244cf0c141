package run

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
)

// killLate does something in a process of its own, which is killed while the runtime
// works on its call of a method; the call takes effect some time after that.
func (r *rig) killLate(method string, delay time.Duration, do childJob) {
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
	r.t.Cleanup(r.rt.Fault(method, critest.Fault{When: critest.Late, Delay: delay, Times: 1}))
	if err := child.Start(); err != nil {
		r.t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); r.callsTo(method) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = child.Process.Kill() // checked by how it ended
	if err := child.Wait(); err == nil || r.callsTo(method) == 0 {
		r.t.Fatalf("the child was not killed in %s", method)
	}
}

// TestDeleteOfLateSandbox: the runtime makes a sandbox, or a container, for a podrun
// that was killed, while the next one deletes the pod. Once that says deleted nothing
// comes up any more (faults.md, F5).
func TestDeleteOfLateSandbox(t *testing.T) {
	for _, method := range []string{"RunPodSandbox", "CreateContainer"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.killLate(method, time.Second, childJob{Manifest: one("Always")})
			for _, result := range r.delete(DeleteOptions{}) {
				if result.Err != nil {
					t.Errorf("delete: %v", result.Err)
				}
			}
			time.Sleep(1200 * time.Millisecond)
			r.nothingLeft()
		})
	}
}

// TestApplyOfLateSandbox: until the runtime has ended the call of a podrun that was
// killed, it refuses the name. The next apply waits, and uses what has come up.
func TestApplyOfLateSandbox(t *testing.T) {
	for _, method := range []string{"RunPodSandbox", "CreateContainer"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.killLate(method, time.Second, childJob{Manifest: one("Always")})
			end := time.Now().Add(time.Second)
			reserved := status.Error(codes.Unknown, `failed to reserve name: name "web" is reserved for "abc"`)
			// As long as that call is under way.
			r.rt.Fault(method, critest.Fault{When: critest.Before, Err: reserved, Match: func(proto.Message) bool { return time.Now().Before(end) }})
			if result := r.apply(one("Always")); result.Err != nil {
				t.Fatalf("the next apply: %v", result.Err)
			}
			time.Sleep(time.Until(end) + 200*time.Millisecond)
			r.oneReadySandbox()
			r.mustApply(one("Always"), OutcomeUnchanged)
			r.mustDelete()
		})
	}
}

// TestRemoveWhileStarting: containerd refuses to remove a container for as long as it
// starts it for a podrun that was killed.
func TestRemoveWhileStarting(t *testing.T) {
	starting := status.Error(codes.Unknown, `failed to remove container "c": failed to set removing state for container "c": container is in starting state, can't be removed`)
	r := newRig(t)
	r.mustApply(one("Always"), OutcomeCreated)
	r.rt.Fault("RemovePodSandbox", critest.Fault{When: critest.Before, Err: starting, Times: 3})
	begun := time.Now()
	r.mustDelete()
	if took := time.Since(begun); took > cri.BusyFor {
		t.Errorf("it took %v", took)
	}
}

// TestApplyAfterAnInterruptedStop: the sandbox that a killed podrun was stopping counts
// as ready until the runtime has ended that call, and no container can be made in it.
func TestApplyAfterAnInterruptedStop(t *testing.T) {
	r := newRig(t)
	r.mustApply(one("Always"), OutcomeCreated)
	r.rt.ForgetCalls()
	r.killLate("StopPodSandbox", time.Second, childJob{Stop: true})
	r.rt.ForgetCalls()
	if result := r.apply(one("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	wantChanges(t, r.rt, "StopPodSandbox", "StopPodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app")
	time.Sleep(1200 * time.Millisecond)
	r.oneReadySandbox()
	r.mustDelete()
}

// TestApplyAfterAStopThatIsRecordedLate: on a busy host, containerd records the exit of a
// container some time after it has answered that the container is stopped. The next apply
// does not take it for a running one (random kills, seed 500: stop, then apply).
func TestApplyAfterAStopThatIsRecordedLate(t *testing.T) {
	r := newRig(t)
	r.mustApply(one("Always"), OutcomeCreated)
	r.killLate("StopContainer", 300*time.Millisecond, childJob{Stop: true})
	r.rt.ForgetCalls()
	r.rt.Fault("StopContainer", critest.Fault{When: critest.AlreadyEnded, Times: 1})
	if result := r.apply(one("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	wantChanges(t, r.rt, "StopContainer app", "CreateContainer app", "StartContainer app")
	r.mustDelete()
}
