package start

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
	"github.com/podrun/podrun/test/engine/rig"
)

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
			pod: rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5", "initContainers:",
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
			pod: rig.PodText("web", "Always", "terminationGracePeriodSeconds: 7", "containers:",
				"- {name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: ['true']}}, preStop: {exec: {command: ['true']}}}}",
				"- {name: sleeper, image: registry.example/app:1, lifecycle: {preStop: {sleep: {seconds: 1}}}}"),
			apply: []string{"RunPodSandbox", "CreateContainer app", "StartContainer app", "ExecSync app", "CreateContainer sleeper", "StartContainer sleeper"},
			drop:  []string{"ExecSync app", "StopContainer app", "StopContainer sleeper", "StopPodSandbox", "RemovePodSandbox"},
			// podrun deducts the duration of the sleep from the grace period.
			stopTimeouts: map[string]int64{"app": 7, "sleeper": 6},
		},
		{
			name: "several containers in list order",
			pod: rig.PodText("web", "Always", "containers:", "- {name: zeta, image: registry.example/app:1}", "- {name: alpha, image: registry.example/web:1}",
				"- {name: mid, image: registry.example/db:1}"),
			apply: []string{"RunPodSandbox", "CreateContainer zeta", "StartContainer zeta", "CreateContainer alpha", "StartContainer alpha", "CreateContainer mid", "StartContainer mid"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				// The default order is covered by TestCreateAhead.
				r.Settings.StartOrder = nodeconfig.StartStrict
				for name, b := range tc.scripts {
					r.Runtime.Script(name, b)
				}
				r.MustApply(tc.pod, run.OutcomeCreated)
				rig.WantChanges(t, r.Runtime, tc.apply...)
				r.MustDelete()
				if tc.drop != nil {
					for _, c := range r.Runtime.Calls() {
						if stop, ok := c.Request.(*runtimeapi.StopContainerRequest); ok && stop.GetTimeout() != tc.stopTimeouts[c.Subject] {
							t.Errorf("%s stopped with a timeout of %d", c.Subject, stop.GetTimeout())
						}
					}
					rig.WantChanges(t, r.Runtime, tc.drop...)
				}
			})
		})
	}
}

// TestApplyWritesWhatItFound checks which files exist on the host after a simple apply.
func TestApplyWritesWhatItFound(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	result := r.MustApply(withInitOf(r, "Always"), run.OutcomeCreated)
	uid := result.ID.UID
	if result.Status.Phase != corev1.PodRunning || result.Status.PodIP == "" {
		t.Errorf("phase %s, ip %q", result.Status.Phase, result.Status.PodIP)
	}
	if want := []string{"Pulled setup", "Created setup", "Started setup", "Pulled app", "Created app", "Started app"}; !slices.Equal(withoutDNS(r.Reasons()), want) {
		t.Errorf("events %q", r.Reasons())
	}
	events, err := store.ReadJournal(r.Layout(), uid)
	if err != nil || len(events) != len(r.Reasons()) {
		t.Errorf("%d events in the journal, %d reported, %v", len(events), len(r.Reasons()), err)
	}
	for path, mode := range map[string]os.FileMode{
		r.Settings.RootDir: 0o750, string(r.Layout().Pod(uid)): 0o750, r.Layout().Pod(uid).Checkpoint(): 0o600, r.Layout().Pod(uid).EtcHosts(): 0o644,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	links, err := os.ReadDir(r.Settings.ContainerLogsDir)
	if err != nil || len(links) != 2 {
		t.Errorf("%d links to logs, %v", len(links), err)
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join(r.Settings.ContainerLogsDir, link.Name())); err != nil {
			t.Errorf("the target of a link is missing: %v", err)
		}
	}
	if len(rig.CgroupsOf(r.Settings.CgroupRoot+"/kubepods/besteffort/pod"+uid)) == 0 {
		t.Errorf("no cgroup of the pod among %v", rig.CgroupsOf(r.Settings.CgroupRoot+"/*"))
	}
	if sb := r.Runtime.Sandboxes()[0]; sb.Config.GetLinux().GetCgroupParent() != r.Settings.CgroupRoot+"/kubepods/besteffort/pod"+uid {
		t.Errorf("cgroup parent %s", sb.Config.GetLinux().GetCgroupParent())
	}
	r.MustDelete()
}

// withInitOf returns rig.WebWithInit, and makes its init container exit immediately.
func withInitOf(r *rig.Host, policy string) string {
	r.Runtime.Script("setup", critest.Behavior{})
	return rig.WebWithInit(policy)
}

// withoutDNS drops the warning about a missing cluster DNS.
func withoutDNS(reasons []string) []string {
	return slices.DeleteFunc(reasons, func(r string) bool { return r == "MissingClusterDNS" })
}

func TestApplyAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := withInitOf(r, "Always")
		r.MustApply(text, run.OutcomeCreated)
		r.Runtime.ForgetCalls()
		for range 2 {
			r.MustApply(text, run.OutcomeUnchanged)
			rig.WantChanges(t, r.Runtime)
		}
		r.Exit("app", 3)
		result := r.MustApply(text, run.OutcomeRestarted)
		if !slices.Equal(result.What, []string{"app"}) {
			t.Errorf("what: %q", result.What)
		}
		rig.WantChanges(t, r.Runtime, "CreateContainer app", "StartContainer app")
		if c, _ := r.Runtime.Container("app"); c.Config.GetMetadata().GetAttempt() != 1 || c.Config.GetLogPath() != "app/1.log" {
			t.Errorf("attempt %d, log %s", c.Config.GetMetadata().GetAttempt(), c.Config.GetLogPath())
		}
		// The second restart has a back-off of 10 s, counted from the exit.
		r.Exit("app", 3)
		begun := time.Now()
		r.MustApply(text, run.OutcomeRestarted)
		if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("restarted after %s", took)
		}
		if !r.Emitted("BackOff app", "Back-off restarting failed container app in pod web_default(") {
			t.Errorf("no BackOff among %q", r.Reasons())
		}
		rig.WantChanges(t, r.Runtime, "RemoveContainer app", "CreateContainer app", "StartContainer app")
		r.MustDelete()
	})
}

// TestApplyCompletedPod checks that apply succeeds if the pod completed before apply observed it
// (the kubelet's runonce mode reported such a pod as not running).
func TestApplyCompletedPod(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Never", "OnFailure"} {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("app", critest.Behavior{})
			r.MustApply(rig.Web(policy), run.OutcomeCreated)
			// The container has already exited.
			synctest.Wait()
			if result := r.MustApply(rig.Web(policy), run.OutcomeUnchanged); result.Status.Phase != corev1.PodSucceeded {
				t.Errorf("phase %s", result.Status.Phase)
			}
			if n := rig.Count(r.Runtime.Changes(), "StartContainer app"); n != 1 {
				t.Errorf("started %d times", n)
			}
			r.MustDelete()
		})
	}
}

// TestApplyEachForItself checks that podrun rolls back only the failed one of two admitted pods.
func TestApplyEachForItself(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	bad := rig.PodText("db", "Always", "containers: [{name: app, image: registry.example/absent:1}]")
	results, err := r.ApplyAll(t.Context(), rig.Web("Always"), bad)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Outcome != run.OutcomeCreated || results[0].Err != nil {
		t.Errorf("%+v", results[0])
	}
	rig.WantErr(t, results[1].Err, problem.Image, "registry.example/absent:1")
	if n := len(r.Runtime.Sandboxes()); n != 1 {
		t.Errorf("%d sandboxes", n)
	}
	r.MustDelete()
}

// TestLongLogLink covers a link whose name would be too long: podrun must truncate it as the
// kubelet does, and remove it with the pod.
func TestLongLogLink(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	name := strings.Repeat("n", 150)
	if result := r.Apply(rig.PodText(name, "Always", "containers: [{name: "+strings.Repeat("c", 63)+", image: registry.example/app:1}]")); result.Err != nil {
		t.Fatal(result.Err)
	}
	links, err := os.ReadDir(r.Settings.ContainerLogsDir)
	if err != nil || len(links) != 1 || len(links[0].Name()) != 255 || !strings.HasSuffix(links[0].Name(), ".log") {
		t.Fatalf("links %v, %v", links, err)
	}
	if _, err := os.Stat(filepath.Join(r.Settings.ContainerLogsDir, links[0].Name())); err != nil {
		t.Error(err)
	}
	r.MustDelete()
	if links, err = os.ReadDir(r.Settings.ContainerLogsDir); err != nil || len(links) > 0 {
		t.Errorf("left: %v, %v", links, err)
	}
}

// TestNoLogLink checks that podrun prints a warning and starts the pod if it cannot create the log
// link.
func TestNoLogLink(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	if err := os.Symlink("/proc/none", r.Settings.ContainerLogsDir); err != nil {
		t.Fatal(err)
	}
	if result := r.Apply(rig.Web("Always")); result.Err != nil {
		t.Error(result.Err)
	}
	r.MustDelete()
	if err := os.Remove(r.Settings.ContainerLogsDir); err != nil {
		t.Error(err)
	}
}
