package ownership

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// attemptsOf lists the attempt numbers of the sandboxes that podrun requested.
func attemptsOf(rt *critest.Runtime) []uint32 {
	var out []uint32
	for _, c := range rt.Calls() {
		if req, ok := c.Request.(*runtimeapi.RunPodSandboxRequest); ok {
			out = append(out, req.GetConfig().GetMetadata().GetAttempt())
		}
	}
	return out
}

// sameRequests checks that repeated requests for one attempt of a sandbox are identical. CRI-O
// returns a sandbox that it created too late for an identical request, and otherwise removes the
// sandbox (test/timeout.bats).
func sameRequests(t *testing.T, rt *critest.Runtime) {
	t.Helper()
	first := map[uint32]*runtimeapi.RunPodSandboxRequest{}
	for _, c := range rt.Calls() {
		req, ok := c.Request.(*runtimeapi.RunPodSandboxRequest)
		if !ok {
			continue
		}
		attempt := req.GetConfig().GetMetadata().GetAttempt()
		if before := first[attempt]; before != nil && !proto.Equal(before, req) {
			t.Errorf("attempt %d was requested again as\n%v\nafter\n%v", attempt, req, before)
		}
		first[attempt] = req
	}
}

// TestSandboxInDoubt covers a runtime that responds too late, and a runtime that has reserved a
// name for an object that it does not list. podrun must make a new attempt only after it has
// removed the old sandbox, so that two sandboxes never exist at the same time.
func TestSandboxInDoubt(t *testing.T) {
	t.Parallel()
	reserved := status.Error(codes.Unknown, `failed to reserve sandbox name "web_default_u_0": name "web_default_u_0" is reserved for "abc"`)
	cni := status.Error(codes.Unknown, `failed to setup network for sandbox "abc": plugin type="bridge" failed (add)`)
	for _, tc := range []struct {
		name     string
		fault    critest.Fault
		attempts []uint32
		changes  []string
		err      []string // substrings of the expected error; nil for no error
	}{
		// containerd#12438, #9947
		{name: "it was made, and nobody told", fault: critest.Fault{When: critest.EffectThenHang, Times: 1}, attempts: []uint32{0, 1},
			changes: []string{"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app"}},
		{name: "it was made too late", fault: critest.Fault{When: critest.After, Times: 1}, attempts: []uint32{0, 1},
			changes: []string{"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app"}},
		// CRI-O continues with an identical request (timeout.bats).
		{name: "it was not made", fault: critest.Fault{When: critest.Hang, Times: 1}, attempts: []uint32{0, 0},
			changes: []string{"RunPodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app"}},
		{name: "it is made while the next is asked for", fault: critest.Fault{When: critest.Late, Delay: 5 * time.Minute, Times: 1}, attempts: []uint32{0, 0},
			changes: []string{"RunPodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app"}},
		{name: "its name is reserved", fault: critest.Fault{When: critest.Before, Err: reserved, Times: 2}, attempts: []uint32{0, 1, 2},
			changes: []string{"RunPodSandbox", "RunPodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app"}},
		{name: "its name stays reserved", fault: critest.Fault{When: critest.Before, Err: reserved}, attempts: []uint32{0, 1, 2},
			changes: []string{"RunPodSandbox", "RunPodSandbox", "RunPodSandbox"}, err: []string{"pod default/web", "create sandbox", "is reserved for"}},
		// containerd keeps a record if its own rollback fails.
		{name: "its network failed, and a record is left", fault: critest.Fault{When: critest.After, Err: cni}, attempts: []uint32{0},
			changes: []string{"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"}, err: []string{"pod default/web", "create sandbox", `plugin type="bridge" failed`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Fault("RunPodSandbox", tc.fault)
				result := r.Apply(rig.Web("Always"))
				time.Sleep(10 * time.Minute)
				if got := attemptsOf(r.Runtime); !slices.Equal(got, tc.attempts) {
					t.Errorf("attempts %v, want %v", got, tc.attempts)
				}
				rig.WantChanges(t, r.Runtime, tc.changes...)
				sameRequests(t, r.Runtime)
				if tc.err != nil {
					rig.WantErr(t, result.Err, problem.Runtime, tc.err...)
					r.NothingLeft()
					return
				}
				if result.Err != nil {
					t.Fatal(result.Err)
				}
				r.OneReadySandbox()
				if !r.Emitted("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error") {
					t.Errorf("events %q", r.Reasons())
				}
				r.MustApply(rig.Web("Always"), run.OutcomeUnchanged)
				r.MustDelete()
			})
		})
	}
}

// TestSandboxAfterRepair covers a sandbox that cannot be created because the sandbox image is damaged: podrun
// tries again only if it has repaired the image, and only once.
func TestSandboxAfterRepair(t *testing.T) {
	t.Parallel()
	lost := status.Error(codes.NotFound, "failed to get sandbox image: content digest sha256:1: not found")
	for name, tc := range map[string]struct {
		repaired bool
		failures int
		tries    int
		err      bool
	}{
		"repaired":          {repaired: true, failures: 1, tries: 2},
		"repaired in vain":  {repaired: true, failures: 9, tries: 2, err: true},
		"nothing to repair": {failures: 9, tries: 1, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				begun, calls := time.Now(), 0
				r.RepairImages = func(_ context.Context, since time.Time) bool {
					calls++
					return tc.repaired && !since.Before(begun)
				}
				r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Before, Err: lost, Times: tc.failures})
				result := r.Apply(rig.Web("Always"))
				if n := len(attemptsOf(r.Runtime)); n != tc.tries || calls != 1 || (result.Err != nil) != tc.err {
					t.Errorf("%d attempts, %d repairs, %v", n, calls, result.Err)
				}
				if tc.err {
					r.NothingLeft()
				}
			})
		})
	}
}

// TestContainerInDoubt covers the cases of TestSandboxInDoubt for a container (containerd#4604,
// #13867).
func TestContainerInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.EffectThenHang, Times: 1})
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		rig.WantChanges(t, r.Runtime, "RunPodSandbox", "CreateContainer app", "RemoveContainer app", "CreateContainer app", "StartContainer app")
		if n := len(r.Runtime.Containers()); n != 1 {
			t.Errorf("%d containers", n)
		}
		r.MustDelete()
	})
}

// TestSandboxWithoutAddress covers a sandbox without an address. A kubelet would create another
// one; podrun must report which configuration to check.
func TestSandboxWithoutAddress(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critest.PodRange())
	rig.WantErr(t, r.Apply(rig.Web("Always")).Err, problem.Runtime, "pod default/web", "CNI")
	r.NothingLeft()
}

// TestRollbackFails checks that the error names the objects that podrun could not remove, and
// that delete removes them.
func TestRollbackFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before})
		clear := r.Runtime.Fault("RemovePodSandbox", critest.Fault{When: critest.Before})
		result := r.Apply(rig.Web("Always"))
		id := r.Runtime.Sandboxes()[0].ID
		rig.WantErr(t, result.Err, problem.Runtime, "container app", "create", "clean up", id)
		clear()
		r.MustDelete()
	})
}

// TestReserveFails covers two pods. If podrun cannot write the state of the second one, no
// leftovers of the first one may remain.
func TestReserveFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := func(name string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", uid: u-" + name + "}\nspec: {containers: [{name: app, image: registry.example/app:1}]}\n"
	}
	if err := os.MkdirAll(r.Layout().PodsDir(), 0o750); err != nil {
		t.Fatal(err)
	}
	planted := string(r.Layout().Pod("u-db"))
	if err := os.Symlink("/etc", planted); err != nil {
		t.Fatal(err)
	}
	results, err := r.ApplyAll(t.Context(), text("web"), text("db"))
	if err == nil || results != nil || !strings.Contains(err.Error(), "pod default/db") {
		t.Errorf("%v, %v", results, err)
	}
	if _, err := os.Stat(string(r.Layout().Pod("u-web"))); !os.IsNotExist(err) {
		t.Errorf("the first one's directory: %v", err)
	}
	if entries, err := os.ReadDir("/etc"); err != nil || len(entries) == 0 {
		t.Errorf("/etc: %v", err)
	}
	rig.WantChanges(t, r.Runtime)
}

// TestVolumeIsNotThere covers a missing hostPath. podrun must report it as a problem of the
// host before it creates anything.
func TestVolumeIsNotThere(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	missing := filepath.Join(t.TempDir(), "missing")
	result := r.Apply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, volumeMounts: [{name: data, mountPath: /data}]}]",
		"volumes: [{name: data, hostPath: {path: "+missing+", type: Directory}}]"))
	rig.WantErr(t, result.Err, problem.Refused, "Pod default/web", "spec.volumes[0].hostPath", missing)
	r.NothingLeft()
}

// TestVolumeFails checks that nothing remains if podrun cannot create a hostPath.
func TestVolumeFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const impossible = "/proc/none/data"
	result := r.Apply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, volumeMounts: [{name: data, mountPath: /data}]}]",
		"volumes: [{name: data, hostPath: {path: "+impossible+", type: DirectoryOrCreate}}]"))
	rig.WantErr(t, result.Err, problem.Runtime, "pod default/web", "volume data", "/proc/none")
	if !r.Emitted("FailedMount", `MountVolume.SetUp failed for volume "data"`) {
		t.Errorf("events %q", r.Reasons())
	}
	r.NothingLeft()
}

// TestRunAsNonRootRefused checks that podrun checks a present image before it creates the
// sandbox, and that it checks any image on every start (CVE-2019-11245).
func TestRunAsNonRootRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.AddRemote(critest.Image{Name: "registry.example/away:1"})
	for i, image := range []string{"app:1", "app:1", "away:1", "away:1", "app:1, imagePullPolicy: Always"} {
		text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/"+image+", securityContext: {runAsNonRoot: true}}]")
		r.Runtime.ForgetCalls()
		result := r.Apply(text)
		rig.WantErr(t, result.Err, problem.Refused, "image will run as root", "container: app")
		// The image that the first attempt pulled is present for the second one.
		pulled := i == 2 || i == 4
		if made := slices.Contains(r.Runtime.Changes(), "RunPodSandbox"); made != pulled {
			t.Errorf("%s: a sandbox was created: %v", image, made)
		}
		if slices.Contains(r.Runtime.Changes(), "CreateContainer app") {
			t.Error("it was created")
		}
		r.NothingLeft()
	}
}
