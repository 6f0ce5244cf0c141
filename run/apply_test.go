package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

// one is a pod of one container.
func one(policy string) string {
	return podText("web", policy, "containers: [{name: app, image: registry.example/app:1}]")
}

// withInit is a pod of one init container and one app container.
func withInit(policy string) string {
	return podText("web", policy, "initContainers: [{name: setup, image: registry.example/setup:1}]",
		"containers: [{name: app, image: registry.example/app:1}]")
}

func wantChanges(t testing.TB, rt *critest.Runtime, want ...string) {
	t.Helper()
	if got := rt.Changes(); !slices.Equal(got, want) {
		t.Errorf("calls\n got %q\nwant %q", got, want)
	}
	rt.ForgetCalls()
}

// TestApplyCallsAsTheKubelet compares the calls that change something with
// recordings of a kubelet v1.36.3, for apply and delete. What podrun adds is the
// removal of the sandbox, which a kubelet leaves to its garbage collector.
func TestApplyCallsAsTheKubelet(t *testing.T) {
	for _, tc := range []struct {
		name, pod    string
		scripts      map[string]critest.Behavior
		apply, drop  []string
		stopTimeouts map[string]int64
	}{
		{
			name: "init containers and a sidecar",
			pod: podText("web", "Always", "terminationGracePeriodSeconds: 5", "initContainers:",
				"- {name: init-one, image: registry.example/app:1}",
				"- {name: sidecar, image: registry.example/app:1, restartPolicy: Always}",
				"- {name: init-two, image: registry.example/app:1}",
				"containers: [{name: app, image: registry.example/app:1}]"),
			scripts: map[string]critest.Behavior{"init-one": {}, "init-two": {After: time.Second}},
			apply: []string{"RunPodSandbox", "CreateContainer init-one", "StartContainer init-one", "CreateContainer sidecar", "StartContainer sidecar",
				"CreateContainer init-two", "StartContainer init-two", "CreateContainer app", "StartContainer app"},
			drop:         []string{"StopContainer app", "StopContainer sidecar", "StopPodSandbox", "RemovePodSandbox"},
			stopTimeouts: map[string]int64{"app": 5, "sidecar": 5},
		},
		{
			name: "hooks",
			pod: podText("web", "Always", "terminationGracePeriodSeconds: 7", "containers:",
				"- {name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: ['true']}}, preStop: {exec: {command: ['true']}}}}",
				"- {name: sleeper, image: registry.example/app:1, lifecycle: {preStop: {sleep: {seconds: 1}}}}"),
			apply: []string{"RunPodSandbox", "CreateContainer app", "StartContainer app", "ExecSync app", "CreateContainer sleeper", "StartContainer sleeper"},
			drop:  []string{"ExecSync app", "StopContainer app", "StopContainer sleeper", "StopPodSandbox", "RemovePodSandbox"},
			// The sleep counts in the grace period.
			stopTimeouts: map[string]int64{"app": 7, "sleeper": 6},
		},
		{
			name: "several containers in list order",
			pod: podText("web", "Always", "containers:", "- {name: zeta, image: registry.example/app:1}", "- {name: alpha, image: registry.example/web:1}",
				"- {name: mid, image: registry.example/db:1}"),
			apply: []string{"RunPodSandbox", "CreateContainer zeta", "StartContainer zeta", "CreateContainer alpha", "StartContainer alpha", "CreateContainer mid", "StartContainer mid"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for name, b := range tc.scripts {
					r.rt.Script(name, b)
				}
				r.mustApply(tc.pod, OutcomeCreated)
				wantChanges(t, r.rt, tc.apply...)
				r.mustDelete()
				if tc.drop != nil {
					for _, c := range r.rt.Calls() {
						if stop, ok := c.Request.(*runtimeapi.StopContainerRequest); ok && stop.GetTimeout() != tc.stopTimeouts[c.Subject] {
							t.Errorf("%s stopped with a timeout of %d", c.Subject, stop.GetTimeout())
						}
					}
					wantChanges(t, r.rt, tc.drop...)
				}
			})
		})
	}
}

// TestApplyWritesWhatItFound checks what is on the host after a simple apply.
func TestApplyWritesWhatItFound(t *testing.T) {
	r := newRig(t)
	result := r.mustApply(withInitOf(r, "Always"), OutcomeCreated)
	uid := result.ID.UID
	if result.Status.Phase != corev1.PodRunning || result.Status.PodIP == "" {
		t.Errorf("phase %s, ip %q", result.Status.Phase, result.Status.PodIP)
	}
	if want := []string{"Pulled setup", "Created setup", "Started setup", "Pulled app", "Created app", "Started app"}; !slices.Equal(withoutDNS(r.reasons()), want) {
		t.Errorf("events %q", r.reasons())
	}
	events, err := ReadJournal(r.layout(), uid)
	if err != nil || len(events) != len(r.reasons()) {
		t.Errorf("%d events in the journal, %d told, %v", len(events), len(r.reasons()), err)
	}
	for path, mode := range map[string]os.FileMode{
		r.settings.RootDir: 0o750, r.layout().Pod(uid): 0o750, r.layout().Checkpoint(uid): 0o600, r.layout().EtcHosts(uid): 0o644,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	links, err := os.ReadDir(r.settings.ContainerLogsDir)
	if err != nil || len(links) != 2 {
		t.Errorf("%d links to logs, %v", len(links), err)
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join(r.settings.ContainerLogsDir, link.Name())); err != nil {
			t.Errorf("a link to nothing: %v", err)
		}
	}
	if len(cgroupsOf(r.settings.CgroupRoot+"/kubepods/besteffort/pod"+uid)) == 0 {
		t.Errorf("no control group of the pod among %v", cgroupsOf(r.settings.CgroupRoot+"/*"))
	}
	if sb := r.rt.Sandboxes()[0]; sb.Config.GetLinux().GetCgroupParent() != r.settings.CgroupRoot+"/kubepods/besteffort/pod"+uid {
		t.Errorf("cgroup parent %s", sb.Config.GetLinux().GetCgroupParent())
	}
	r.mustDelete()
}

// withInitOf is withInit, with an init container that ends at once.
func withInitOf(r *rig, policy string) string {
	r.rt.Script("setup", critest.Behavior{})
	return withInit(policy)
}

// withoutDNS drops the warning about a missing cluster DNS.
func withoutDNS(reasons []string) []string {
	return slices.DeleteFunc(reasons, func(r string) bool { return r == "MissingClusterDNS" })
}

func TestApplyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		text := withInitOf(r, "Always")
		r.mustApply(text, OutcomeCreated)
		r.rt.ForgetCalls()
		for range 2 {
			r.mustApply(text, OutcomeUnchanged)
			wantChanges(t, r.rt)
		}
		if err := r.rt.Exit("app", 3); err != nil {
			t.Fatal(err)
		}
		result := r.mustApply(text, OutcomeRestarted)
		if !slices.Equal(result.What, []string{"app"}) {
			t.Errorf("what: %q", result.What)
		}
		wantChanges(t, r.rt, "CreateContainer app", "StartContainer app")
		if c, _ := r.rt.Container("app"); c.Config.GetMetadata().GetAttempt() != 1 || c.Config.GetLogPath() != "app/1.log" {
			t.Errorf("attempt %d, log %s", c.Config.GetMetadata().GetAttempt(), c.Config.GetLogPath())
		}
		// The second restart backs off, 10 s from the exit.
		if err := r.rt.Exit("app", 3); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		r.mustApply(text, OutcomeRestarted)
		if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("restarted after %s", took)
		}
		if !r.said("BackOff app", "Back-off restarting failed container app in pod web_default(") {
			t.Errorf("no BackOff among %q", r.reasons())
		}
		wantChanges(t, r.rt, "RemoveContainer app", "CreateContainer app", "StartContainer app")
		r.mustDelete()
	})
}

// TestApplyInitExits: what an init container's exit code means is the restart
// policy's to say.
func TestApplyInitExits(t *testing.T) {
	t.Run("Never", func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("setup", critest.Behavior{ExitCode: 7})
		result := r.apply(withInit("Never"))
		wantErr(t, result.Err, problem.Failed, "pod default/web", "container setup exited with 7 (Error)")
		if result.Status.Phase != corev1.PodFailed {
			t.Errorf("phase %s", result.Status.Phase)
		}
		wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "StopPodSandbox")
		// It stays for diagnosis, and stays failed.
		again := r.apply(withInit("Never"))
		wantErr(t, again.Err, problem.Failed, "container setup exited with 7")
		wantChanges(t, r.rt)
		r.mustDelete()
	})
	for _, policy := range []string{"OnFailure", "Always"} {
		t.Run(policy+" until it succeeds", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.rt.Script("setup", critest.Behavior{ExitCode: 1}, critest.Behavior{ExitCode: 1}, critest.Behavior{ExitCode: 1}, critest.Behavior{})
				begun := time.Now()
				r.mustApply(withInit(policy), OutcomeCreated)
				// At once, after 10 s, after 20 s.
				if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
					t.Errorf("took %s", took)
				}
				if n := countOf(r.rt.Changes(), "StartContainer setup"); n != 4 {
					t.Errorf("started %d times", n)
				}
				if n := countOf(r.reasons(), "BackOff setup"); n != 2 {
					t.Errorf("%d BackOff among %q", n, r.reasons())
				}
				// One earlier run is kept, as a kubelet does.
				if n := len(r.rt.Containers()); n != 3 {
					t.Errorf("%d containers are kept", n)
				}
				r.mustDelete()
			})
		})
	}
	t.Run("Always until the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("setup", critest.Behavior{ExitCode: 1})
			begun := time.Now()
			result := r.apply(withInit("Always"))
			wantErr(t, result.Err, problem.Deadline, "timed out after 10m0s", "init container setup has not finished")
			if took := time.Since(begun); took < testTimeout || took > testTimeout+time.Second {
				t.Errorf("took %s", took)
			}
			// Restarts at 0, 10, 30, 70, 150, 310 s; the next would be at 610.
			if n := countOf(r.rt.Changes(), "StartContainer setup"); n != 7 {
				t.Errorf("started %d times", n)
			}
			r.mustDelete()
		})
	})
}

func countOf(list []string, what string) int {
	n := 0
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

func TestApplySidecarOfCompletedPod(t *testing.T) {
	for _, end := range []string{"runs", "has exited"} {
		t.Run(end, func(t *testing.T) {
			r := newRig(t)
			text := podText("web", "Never", "initContainers: [{name: side, image: registry.example/web:1, restartPolicy: Always}]",
				"containers: [{name: app, image: registry.example/app:1}]")
			r.mustApply(text, OutcomeCreated)
			if end == "has exited" {
				if err := r.rt.Exit("side", 137); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.rt.Exit("app", 0); err != nil {
				t.Fatal(err)
			}
			r.rt.ForgetCalls()
			result := r.mustApply(text, OutcomeUnchanged)
			if result.Status.Phase != corev1.PodSucceeded {
				t.Errorf("phase %s", result.Status.Phase)
			}
			// The apps are done: a kubelet stops the sidecar and the sandbox, and
			// does not count the sidecar's exit code.
			if c, _ := r.rt.Container("side"); c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				t.Errorf("the sidecar is %s", c.State)
			}
			if r.rt.Sandboxes()[0].Ready {
				t.Error("the sandbox still holds its address")
			}
			if slices.Contains(r.rt.Changes(), "StartContainer side") {
				t.Errorf("the sidecar was restarted: %q", r.rt.Changes())
			}
			r.mustApply(text, OutcomeUnchanged)
			r.mustDelete()
		})
	}
}

// TestApplySidecarDiesBeforeInit: an init container that waits for its sidecar
// gets it back.
func TestApplySidecarDiesBeforeInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("side", critest.Behavior{After: time.Second, ExitCode: 1}, critest.Behavior{Forever: true})
		r.rt.Script("setup", critest.Behavior{After: 20 * time.Second})
		text := podText("web", "Always", "initContainers:", "- {name: side, image: registry.example/web:1, restartPolicy: Always}",
			"- {name: setup, image: registry.example/setup:1}", "containers: [{name: app, image: registry.example/app:1}]")
		r.mustApply(text, OutcomeCreated)
		wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer side", "StartContainer side", "CreateContainer setup", "StartContainer setup",
			"CreateContainer side", "StartContainer side", "CreateContainer app", "StartContainer app")
		r.mustDelete()
	})
}

// TestApplyOneImageFails: the other containers are started all the same.
func TestApplyOneImageFails(t *testing.T) {
	r := newRig(t)
	text := podText("web", "Always", "containers:", "- {name: first, image: registry.example/app:1}", "- {name: bad, image: registry.example/absent:1}",
		"- {name: third, image: registry.example/web:1}")
	result := r.apply(text)
	wantErr(t, result.Err, problem.Image, "container bad", "registry.example/absent:1")
	wantChanges(t, r.rt, "PullImage registry.example/absent:1", "RunPodSandbox", "CreateContainer first", "StartContainer first", "CreateContainer third", "StartContainer third")
	if result.Outcome != OutcomeFailed || len(r.rt.Containers()) != 2 {
		t.Errorf("%s, %d containers", result.Outcome, len(r.rt.Containers()))
	}
	// When the image can be had, apply goes on.
	r.rt.AddRemote(critest.Image{Name: "registry.example/absent:1"})
	r.rt.ForgetCalls()
	if again := r.apply(text); again.Err != nil {
		t.Errorf("again: %v", again.Err)
	}
	wantChanges(t, r.rt, "PullImage registry.example/absent:1", "CreateContainer bad", "StartContainer bad")
	r.mustDelete()
}

// TestApplyOnlyImageFails leaves nothing.
func TestApplyOnlyImageFails(t *testing.T) {
	for _, tc := range []struct{ name, image, policy string }{
		{"not found", "registry.example/absent:1", "IfNotPresent"},
		{"never pulled", "registry.example/absent:1", "Never"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			text := podText("web", "Always", "containers: [{name: app, image: "+tc.image+", imagePullPolicy: "+tc.policy+"}]")
			wantErr(t, r.apply(text).Err, problem.Image, "container app", tc.image)
			r.nothingLeft()
		})
	}
}

// TestApplyImageBacksOff: a registry that is down is asked again, 10 s later.
func TestApplyImageBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.AddRemote(critest.Image{Name: "registry.example/late:1", PullErr: critest.ErrRefused, FailTimes: 2})
		text := podText("web", "Always", "containers: [{name: app, image: registry.example/late:1}]")
		begun := time.Now()
		r.mustApply(text, OutcomeCreated)
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %s", took)
		}
		if !r.said("BackOff app", `Back-off pulling image "registry.example/late:1"`) {
			t.Errorf("events %q", r.reasons())
		}
		r.mustDelete()
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.AddRemote(critest.Image{Name: "registry.example/late:1", PullErr: critest.ErrRefused})
		result := r.apply(podText("web", "Always", "containers: [{name: app, image: registry.example/late:1}]"))
		// It says why, not only that the time is over.
		wantErr(t, result.Err, problem.Image, "container app", "ImagePullBackOff", "connection refused")
		r.nothingLeft()
	})
}

// TestApplyFailingPostStart: as in the kubelet the container is killed, with its
// grace period, and the later ones still start.
func TestApplyFailingPostStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 4, Stderr: "the secret"} })
		text := podText("web", "Always", "terminationGracePeriodSeconds: 9", "containers:",
			"- {name: first, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [sh, -c, exit 4]}}}}",
			"- {name: second, image: registry.example/web:1}")
		result := r.apply(text)
		wantErr(t, result.Err, problem.Failed, "container first", "postStart hook", "exited with 4")
		wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer first", "StartContainer first", "ExecSync first", "StopContainer first", "CreateContainer second", "StartContainer second")
		if !r.said("FailedPostStartHook first", "PostStartHook failed") || !r.said("Killing first", "FailedPostStartHook") {
			t.Errorf("events %q", r.reasons())
		}
		for _, e := range r.events {
			if strings.Contains(e.Message, "secret") {
				t.Errorf("an event quotes the hook's output: %s", e.Message)
			}
		}
		// A second apply restarts it and runs the hook again.
		r.rt.ScriptExec("first", nil)
		r.rt.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{} })
		again := r.mustApply(text, OutcomeRestarted)
		if !slices.Equal(again.What, []string{"first"}) {
			t.Errorf("restarted %q", again.What)
		}
		wantChanges(t, r.rt, "CreateContainer first", "StartContainer first", "ExecSync first")
		r.mustDelete()
	})
}

// TestApplyPostStartSleep: the next container waits for the hook.
func TestApplyPostStartSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begun := time.Now()
		r.mustApply(podText("web", "Always", "containers:", "- {name: first, image: registry.example/app:1, lifecycle: {postStart: {sleep: {seconds: 30}}}}",
			"- {name: second, image: registry.example/web:1}"), OutcomeCreated)
		second, _ := r.rt.Container("second")
		if took := second.CreatedAt.Sub(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("the second was created after %s", took)
		}
		r.mustDelete()
	})
}

// TestApplyPostStartDeadlock: a hook that waits for a later container never ends
// by itself (k/k#59161, #81450): the command's timeout ends it, and its name is
// told.
func TestApplyPostStartDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{After: 100 * time.Hour} })
		text := podText("web", "Always", "containers:",
			"- {name: first, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [wait-for-second]}}}}",
			"- {name: second, image: registry.example/web:1}")
		begun := time.Now()
		result := r.apply(text)
		wantErr(t, result.Err, problem.Deadline, "timed out after 10m0s", "the postStart hook of container first")
		if took := time.Since(begun); took > testTimeout+time.Second {
			t.Errorf("took %s", took)
		}
		if n := len(r.rt.Containers()); n != 1 {
			t.Errorf("%d containers", n)
		}
		// It stays for diagnosis; another apply runs the hook that has not run.
		r.rt.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{} })
		r.rt.ForgetCalls()
		if again := r.apply(text); again.Err != nil {
			t.Error(again.Err)
		}
		wantChanges(t, r.rt, "ExecSync first", "CreateContainer second", "StartContainer second")
		r.mustDelete()
	})
}

// TestApplyRunsHookOfKilledPodrun: podrun ended between StartContainer and the
// end of the hook (k/k#60053, #122803).
func TestApplyRunsHookOfKilledPodrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: ['true']}}}}]")
		clear := r.rt.Fault("ExecSync", critest.Fault{When: critest.Hang})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("killed")
		time.AfterFunc(time.Minute, func() { cancel(gone) })
		result := r.applyWithin(ctx, text, testTimeout)
		if !errors.Is(result.Err, gone) {
			t.Fatalf("%v", result.Err)
		}
		clear()
		r.rt.ForgetCalls()
		if again := r.apply(text); again.Err != nil {
			t.Error(again.Err)
		}
		wantChanges(t, r.rt, "ExecSync app")
		r.mustApply(text, OutcomeUnchanged)
		wantChanges(t, r.rt)
		r.mustDelete()
	})
}

func TestApplyFailedPod(t *testing.T) {
	r := newRig(t)
	r.mustApply(one("Never"), OutcomeCreated)
	if err := r.rt.Exit("app", 5); err != nil {
		t.Fatal(err)
	}
	r.rt.ForgetCalls()
	result := r.apply(one("Never"))
	wantErr(t, result.Err, problem.Failed, "pod default/web", "container app exited with 5")
	if slices.Contains(r.rt.Changes(), "StartContainer app") {
		t.Error("it was started again")
	}
	r.mustDelete()
}

// TestApplyCompletedPod: a pod that ended before anybody looked is a success
// (research: runonce took it for one that does not run).
func TestApplyCompletedPod(t *testing.T) {
	for _, policy := range []string{"Never", "OnFailure"} {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{})
		r.mustApply(one(policy), OutcomeCreated)
		if result := r.mustApply(one(policy), OutcomeUnchanged); result.Status.Phase != corev1.PodSucceeded {
			t.Errorf("phase %s", result.Status.Phase)
		}
		if n := countOf(r.rt.Changes(), "StartContainer app"); n != 1 {
			t.Errorf("started %d times", n)
		}
		r.mustDelete()
	}
}

// TestApplyRefusesAll: one pod that is refused refuses all, before anything is
// touched (bugs: podman leaves the earlier ones).
func TestApplyRefusesAll(t *testing.T) {
	r := newRig(t)
	bad := podText("db", "Always", "nodeSelector: {disk: ssd}", "containers: [{name: app, image: registry.example/db:1}]")
	results, err := r.applyAll(t.Context(), one("Always"), bad)
	wantErr(t, err, problem.Refused, "Pod default/db")
	if results != nil {
		t.Errorf("results %v", results)
	}
	wantChanges(t, r.rt)
	r.nothingLeft()
}

// TestApplyEachForItself: of two admitted pods the one that fails is rolled
// back, the other stays.
func TestApplyEachForItself(t *testing.T) {
	r := newRig(t)
	bad := podText("db", "Always", "containers: [{name: app, image: registry.example/absent:1}]")
	results, err := r.applyAll(t.Context(), one("Always"), bad)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Outcome != OutcomeCreated || results[0].Err != nil {
		t.Errorf("%+v", results[0])
	}
	wantErr(t, results[1].Err, problem.Image, "registry.example/absent:1")
	if n := len(r.rt.Sandboxes()); n != 1 {
		t.Errorf("%d sandboxes", n)
	}
	r.mustDelete()
}

// TestApplyIgnoresOldSandbox leaves an older sandbox whose containers were done
// or created: every init container runs again, in the current one (k/k#140309).
func TestApplyIgnoresOldSandbox(t *testing.T) {
	r := newRig(t)
	r.rt.Script("setup", critest.Behavior{})
	r.rt.Script("more", critest.Behavior{})
	text := podText("web", "Always", "initContainers:", "- {name: setup, image: registry.example/setup:1}", "- {name: more, image: registry.example/setup:2}",
		"containers: [{name: app, image: registry.example/app:1}]")
	// A power cut just before the app container is started.
	stop := r.rt.Fault("StartContainer", critest.Fault{When: critest.Before, Skip: 2})
	if r.apply(text).Err == nil {
		t.Fatal("no error")
	}
	stop()
	r.rt.Restart()
	r.rt.ForgetCalls()
	if result := r.apply(text); result.Err != nil {
		t.Fatal(result.Err)
	}
	wantChanges(t, r.rt, "StopPodSandbox", "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "CreateContainer more", "StartContainer more",
		"RemoveContainer app", "CreateContainer app", "StartContainer app")
	r.mustDelete()
}

// TestApplyAfterReboot: the sandbox is re-created with the next attempt.
func TestApplyAfterReboot(t *testing.T) {
	r := newRig(t)
	text := withInitOf(r, "Always")
	r.mustApply(text, OutcomeCreated)
	r.rt.Restart()
	r.rt.ForgetCalls()
	result := r.mustApply(text, OutcomeRestarted)
	if result.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", result.Status.Phase)
	}
	boxes := r.rt.Sandboxes()
	if len(boxes) != 2 || boxes[1].Config.GetMetadata().GetAttempt() != 1 || boxes[0].Ready || !boxes[1].Ready {
		t.Errorf("%+v", boxes)
	}
	if !r.said("SandboxChanged", "re-created") {
		t.Errorf("events %q", r.reasons())
	}
	// The stale sandbox is stopped first, which frees its address on a runtime
	// whose network state outlived the reboot (containerd/cri#948).
	wantChanges(t, r.rt, "StopPodSandbox", "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "CreateContainer app", "StartContainer app")
	r.mustApply(text, OutcomeUnchanged)
	r.mustDelete()
}

func TestApplyAfterRebootNever(t *testing.T) {
	r := newRig(t)
	r.mustApply(one("Never"), OutcomeCreated)
	r.rt.Restart()
	r.rt.ForgetCalls()
	wantErr(t, r.apply(one("Never")).Err, problem.Failed, "container app exited with 255")
	if slices.Contains(r.rt.Changes(), "RunPodSandbox") {
		t.Error("a pod that must not be restarted was")
	}
	r.mustDelete()
}

// TestApplyLeavesStrangersAlone: a sandbox with the pod's UID that podrun did not
// make, as of a kubelet whose pod was exported with its UID.
func TestApplyLeavesStrangersAlone(t *testing.T) {
	for _, ready := range []bool{true, false} {
		for _, name := range []string{"web", "other"} {
			t.Run(fmt.Sprintf("%s, ready %v", name, ready), func(t *testing.T) {
				r := newRig(t)
				stranger(t, r.rt, identity.Pod{Namespace: "default", Name: name, UID: "u-1"}, ready)
				text := "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u-1}\nspec: {containers: [{name: app, image: registry.example/app:1}]}\n"
				r.rt.ForgetCalls()
				result := r.apply(text)
				wantErr(t, result.Err, problem.Refused, "podrun")
				wantChanges(t, r.rt)
				for _, res := range r.delete(DeleteOptions{}) {
					t.Errorf("delete found %v", res.ID)
				}
				if _, err := os.Stat(r.layout().Pod("u-1")); !os.IsNotExist(err) {
					t.Errorf("its directory: %v", err)
				}
				if n := len(r.rt.Sandboxes()); n != 1 {
					t.Errorf("%d sandboxes", n)
				}
			})
		}
	}
}

// stranger makes a pod that podrun does not manage, with a running container.
func stranger(t testing.TB, rt *critest.Runtime, id identity.Pod, ready bool) {
	t.Helper()
	c := rt.Client()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: id.Name, Namespace: id.Namespace, Uid: id.UID}, Labels: id.Labels(),
	}
	box, err := c.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	labels := id.Labels()
	labels[identity.LabelContainerName] = "app"
	con, err := c.CreateContainer(t.Context(), box, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Labels: labels, Image: &runtimeapi.ImageSpec{Image: "registry.example/app:1"},
	}, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartContainer(t.Context(), con); err != nil {
		t.Fatal(err)
	}
	if !ready {
		if err := c.StopPodSandbox(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}
}
