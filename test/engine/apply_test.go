package engine

import (
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
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
)

// one returns a pod with one container.
func one(policy string) string {
	return podText("web", policy, "containers: [{name: app, image: registry.example/app:1}]")
}

// withInit returns a pod with one init container and one app container.
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

// TestApplyCallsAsTheKubelet compares the changing calls of apply and delete with the recorded
// calls of a kubelet v1.36.3. In addition, podrun removes the sandbox; a kubelet leaves this to its
// garbage collector.
func TestApplyCallsAsTheKubelet(t *testing.T) {
	t.Parallel()
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
			// podrun deducts the duration of the sleep from the grace period.
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
				// The default order is covered by TestCreateAhead.
				r.settings.StartOrder = nodeconfig.StartStrict
				for name, b := range tc.scripts {
					r.rt.Script(name, b)
				}
				r.mustApply(tc.pod, run.OutcomeCreated)
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

// TestApplyWritesWhatItFound checks which files exist on the host after a simple apply.
func TestApplyWritesWhatItFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	result := r.mustApply(withInitOf(r, "Always"), run.OutcomeCreated)
	uid := result.ID.UID
	if result.Status.Phase != corev1.PodRunning || result.Status.PodIP == "" {
		t.Errorf("phase %s, ip %q", result.Status.Phase, result.Status.PodIP)
	}
	if want := []string{"Pulled setup", "Created setup", "Started setup", "Pulled app", "Created app", "Started app"}; !slices.Equal(withoutDNS(r.reasons()), want) {
		t.Errorf("events %q", r.reasons())
	}
	events, err := store.ReadJournal(r.layout(), uid)
	if err != nil || len(events) != len(r.reasons()) {
		t.Errorf("%d events in the journal, %d reported, %v", len(events), len(r.reasons()), err)
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
			t.Errorf("the target of a link is missing: %v", err)
		}
	}
	if len(cgroupsOf(r.settings.CgroupRoot+"/kubepods/besteffort/pod"+uid)) == 0 {
		t.Errorf("no cgroup of the pod among %v", cgroupsOf(r.settings.CgroupRoot+"/*"))
	}
	if sb := r.rt.Sandboxes()[0]; sb.Config.GetLinux().GetCgroupParent() != r.settings.CgroupRoot+"/kubepods/besteffort/pod"+uid {
		t.Errorf("cgroup parent %s", sb.Config.GetLinux().GetCgroupParent())
	}
	r.mustDelete()
}

// withInitOf returns withInit, and makes its init container exit immediately.
func withInitOf(r *rig, policy string) string {
	r.rt.Script("setup", critest.Behavior{})
	return withInit(policy)
}

// withoutDNS drops the warning about a missing cluster DNS.
func withoutDNS(reasons []string) []string {
	return slices.DeleteFunc(reasons, func(r string) bool { return r == "MissingClusterDNS" })
}

func TestApplyAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		text := withInitOf(r, "Always")
		r.mustApply(text, run.OutcomeCreated)
		r.rt.ForgetCalls()
		for range 2 {
			r.mustApply(text, run.OutcomeUnchanged)
			wantChanges(t, r.rt)
		}
		r.exit("app", 3)
		result := r.mustApply(text, run.OutcomeRestarted)
		if !slices.Equal(result.What, []string{"app"}) {
			t.Errorf("what: %q", result.What)
		}
		wantChanges(t, r.rt, "CreateContainer app", "StartContainer app")
		if c, _ := r.rt.Container("app"); c.Config.GetMetadata().GetAttempt() != 1 || c.Config.GetLogPath() != "app/1.log" {
			t.Errorf("attempt %d, log %s", c.Config.GetMetadata().GetAttempt(), c.Config.GetLogPath())
		}
		// The second restart has a back-off of 10 s, counted from the exit.
		r.exit("app", 3)
		begun := time.Now()
		r.mustApply(text, run.OutcomeRestarted)
		if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("restarted after %s", took)
		}
		if !r.emitted("BackOff app", "Back-off restarting failed container app in pod web_default(") {
			t.Errorf("no BackOff among %q", r.reasons())
		}
		wantChanges(t, r.rt, "RemoveContainer app", "CreateContainer app", "StartContainer app")
		r.mustDelete()
	})
}

// TestApplyCompletedPod checks that apply succeeds if the pod completed before apply observed it
// (the kubelet's runonce mode reported such a pod as not running).
func TestApplyCompletedPod(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Never", "OnFailure"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("app", critest.Behavior{})
			r.mustApply(one(policy), run.OutcomeCreated)
			// The container has already exited.
			synctest.Wait()
			if result := r.mustApply(one(policy), run.OutcomeUnchanged); result.Status.Phase != corev1.PodSucceeded {
				t.Errorf("phase %s", result.Status.Phase)
			}
			if n := countOf(r.rt.Changes(), "StartContainer app"); n != 1 {
				t.Errorf("started %d times", n)
			}
			r.mustDelete()
		})
	}
}

// TestApplyEachForItself checks that podrun rolls back only the failed one of two admitted pods.
func TestApplyEachForItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad := podText("db", "Always", "containers: [{name: app, image: registry.example/absent:1}]")
	results, err := r.applyAll(t.Context(), one("Always"), bad)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Outcome != run.OutcomeCreated || results[0].Err != nil {
		t.Errorf("%+v", results[0])
	}
	wantErr(t, results[1].Err, problem.Image, "registry.example/absent:1")
	if n := len(r.rt.Sandboxes()); n != 1 {
		t.Errorf("%d sandboxes", n)
	}
	r.mustDelete()
}

// TestLongLogLink covers a link whose name would be too long: podrun must truncate it as the
// kubelet does, and remove it with the pod.
func TestLongLogLink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := strings.Repeat("n", 150)
	if result := r.apply(podText(name, "Always", "containers: [{name: "+strings.Repeat("c", 63)+", image: registry.example/app:1}]")); result.Err != nil {
		t.Fatal(result.Err)
	}
	links, err := os.ReadDir(r.settings.ContainerLogsDir)
	if err != nil || len(links) != 1 || len(links[0].Name()) != 255 || !strings.HasSuffix(links[0].Name(), ".log") {
		t.Fatalf("links %v, %v", links, err)
	}
	if _, err := os.Stat(filepath.Join(r.settings.ContainerLogsDir, links[0].Name())); err != nil {
		t.Error(err)
	}
	r.mustDelete()
	if links, err = os.ReadDir(r.settings.ContainerLogsDir); err != nil || len(links) > 0 {
		t.Errorf("left: %v, %v", links, err)
	}
}

// TestNoLogLink checks that podrun prints a warning and starts the pod if it cannot create the log
// link.
func TestNoLogLink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := os.Symlink("/proc/none", r.settings.ContainerLogsDir); err != nil {
		t.Fatal(err)
	}
	if result := r.apply(one("Always")); result.Err != nil {
		t.Error(result.Err)
	}
	r.mustDelete()
	if err := os.Remove(r.settings.ContainerLogsDir); err != nil {
		t.Error(err)
	}
}
