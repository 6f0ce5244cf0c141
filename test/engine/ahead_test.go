package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
)

// slowCalls makes CreateContainer take 0.4 s, and StartContainer 1 s.
func (r *rig) slowCalls() {
	r.rt.Fault("CreateContainer", critest.Fault{When: critest.Slow, Delay: 400 * time.Millisecond})
	r.rt.Fault("StartContainer", critest.Fault{When: critest.Slow, Delay: time.Second})
}

// timeline lists the calls that create (C), start (S) and remove (R) containers, in the order in which
// they begin. Each call is followed by its time, in tenths of a second since the first call: "C a 0, S
// a 4".
func (r *rig) timeline() string {
	letters := map[string]string{"CreateContainer": "C", "StartContainer": "S", "RemoveContainer": "R"}
	calls := slices.DeleteFunc(r.rt.Calls(), func(c critest.Call) bool { return letters[c.Method] == "" })
	if len(calls) == 0 {
		return ""
	}
	first := calls[0].Start
	at := func(c critest.Call) int64 { return c.Start.Sub(first).Milliseconds() / 100 }
	slices.SortFunc(calls, func(a, b critest.Call) int {
		return cmp.Or(cmp.Compare(at(a), at(b)), -cmp.Compare(a.Method, b.Method), cmp.Compare(a.Subject, b.Subject))
	})
	var out []string
	for _, c := range calls {
		out = append(out, fmt.Sprintf("%s %s %d", letters[c.Method], c.Subject, at(c)))
	}
	return strings.Join(out, ", ")
}

const (
	twoApps = "containers: [{name: a, image: registry.example/app:1}, {name: b, image: registry.example/app:1}]"
	inTurn  = "C a 0, S a 4, C b 14, S b 18"
)

// TestCreateAhead checks that podrun creates an app container while the previous one starts, unless
// that start can change data that podrun reads for the creation. The order of the events must not
// change.
func TestCreateAhead(t *testing.T) {
	t.Parallel()
	spec := func(a, b string, more ...string) string {
		return podText("web", "Always", append(more, "containers:", "- {name: a, image: registry.example/app:1"+a+"}", "- {name: b, image: registry.example/app:1"+b+"}")...)
	}
	const data = "volumes: [{name: data, emptyDir: {}}]"
	for name, test := range map[string]struct{ setting, text, want string }{
		"two": {"", podText("web", "Always", twoApps), "C a 0, S a 4, C b 4, S b 14"},
		"three": {"", podText("web", "Always", strings.Replace(twoApps, "]", ", {name: c, image: registry.example/app:1}]", 1)),
			"C a 0, S a 4, C b 4, S b 14, C c 14, S c 24"},
		"strict":                          {nodeconfig.StartStrict, podText("web", "Always", twoApps), inTurn},
		"a volume":                        {"", spec("", ", volumeMounts: [{name: data, mountPath: /d}]", data), "C a 0, S a 4, C b 4, S b 14"},
		"a postStart hook of the second":  {"", spec("", ", lifecycle: {postStart: {exec: {command: [x]}}}"), "C a 0, S a 4, C b 4, S b 14"},
		"a postStart hook of the first":   {"", spec(", lifecycle: {postStart: {exec: {command: [x]}}}", ""), inTurn},
		"a subPath":                       {"", spec("", ", volumeMounts: [{name: data, mountPath: /d, subPath: x}]", data), inTurn},
		"a path of the host":              {"", spec("", ", volumeMounts: [{name: data, mountPath: /d}]", "volumes: [{name: data, hostPath: {path: /tmp}}]"), inTurn},
		"a path of the host in the first": {"", spec(", volumeMounts: [{name: data, mountPath: /d}]", "", "volumes: [{name: data, hostPath: {path: /tmp}}]"), inTurn},
		"privileged":                      {"", spec("", ", securityContext: {privileged: true}"), inTurn},
		"process IDs of the host":         {"", spec("", "", "hostPID: true"), inTurn},
		"an image that is pulled":         {"", strings.Replace(podText("web", "Always", twoApps), "name: b, image: registry.example/app:1", "name: b, image: registry.example/far:1", 1), "C a 0, S a 4, C b 70, S b 74"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.settings.StartOrder = test.setting
				r.slowCalls()
				r.rt.AddRemote(critest.Image{Name: "registry.example/far:1", Entrypoint: []string{"/server"}})
				r.rt.Fault("PullImage", critest.Fault{When: critest.Slow, Delay: 7 * time.Second})
				r.rt.ScriptExec("a", func([]string) *critest.Exec { return &critest.Exec{} })
				r.rt.ScriptExec("b", func([]string) *critest.Exec { return &critest.Exec{} })
				r.mustApply(test.text, run.OutcomeCreated)
				if got := r.timeline(); got != test.want {
					t.Errorf("\n got %s\nwant %s", got, test.want)
				}
				var events []string
				for _, reason := range r.reasons() {
					if verb, name, ok := strings.Cut(reason, " "); ok && (verb == "Created" || verb == "Started") {
						events = append(events, verb+" "+name)
					}
				}
				if got := strings.Join(events, ", "); !strings.HasPrefix(got, "Created a, Started a, Created b, Started b") {
					t.Errorf("events: %s", got)
				}
				r.mustDelete()
			})
		})
	}
}

// TestCreateAheadOfCRIO checks that podrun does not create containers ahead with CRI-O, which
// prepares a container's process and mounts when it creates the container.
func TestCreateAheadOfCRIO(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, critest.As(critest.CRIO()))
		r.slowCalls()
		r.mustApply(podText("web", "Always", twoApps), run.OutcomeCreated)
		if got := r.timeline(); got != inTurn {
			t.Errorf("\n got %s\nwant %s", got, inTurn)
		}
		r.mustDelete()
	})
}

// TestCreatedAheadOfFailure covers a container that fails to start: podrun must start the one that it created
// at the same time, as the kubelet does. If podrun fails to create a container ahead, it must not report this,
// because it retries the creation when the container's turn comes.
func TestCreatedAheadOfFailure(t *testing.T) {
	t.Parallel()
	text := podText("web", "Always", twoApps)
	t.Run("start of the first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.slowCalls()
			r.rt.Script("a", critest.Behavior{StartErr: "full"}, critest.Behavior{Forever: true})
			wantErr(t, r.apply(text).Err, problem.Runtime, "pod default/web: container a", "full")
			if got, want := r.timeline(), "C a 0, S a 4, C b 4, S b 14"; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if got := r.restartsOf("b"); got != "running 0" {
				t.Errorf("b: %s", got)
			}
			r.mustApply(text, run.OutcomeRestarted)
			r.mustDelete()
		})
	})
	t.Run("creation of the second", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("full"), Skip: 1, Times: 1})
			r.slowCalls()
			r.mustApply(text, run.OutcomeCreated)
			if got, want := r.timeline(), "C a 0, S a 4, C b 4, C b 14, S b 18"; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if r.emitted("Failed b", "") {
				t.Errorf("%q", r.reasons())
			}
			r.mustDelete()
		})
	})
	t.Run("creation of the second, always", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("full"), Skip: 1})
			wantErr(t, r.apply(text).Err, problem.Runtime, "pod default/web: container b", "full")
			if n := countOf(r.reasons(), "Failed b"); n != 1 {
				t.Errorf("%d events among %q", n, r.reasons())
			}
			r.mustDelete()
		})
	})
}

// restartsOf returns the state of a container in the pod's status, and the container's restart
// count.
func (r *rig) restartsOf(name string) string {
	r.t.Helper()
	views, err := lookup.Pods(r.t.Context(), r.engine(), lookup.Selector{})
	if err != nil || len(views) != 1 {
		r.t.Fatal(views, err)
	}
	st := views[0].Object.Status
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if c.Name != name {
			continue
		}
		state := "waiting"
		switch {
		case c.State.Running != nil:
			state = "running"
		case c.State.Terminated != nil:
			state = fmt.Sprint("exited ", c.State.Terminated.ExitCode)
		}
		return fmt.Sprint(state, " ", c.RestartCount, map[bool]string{true: " in the runtime"}[state == "waiting" && c.ContainerID != ""])
	}
	return "not found"
}

// TestCreatedAheadInterrupted checks that podrun removes a container that it created ahead if the
// container's turn does not come.
func TestCreatedAheadInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.slowCalls()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(900*time.Millisecond, func() { cancel(errCtrlC) })
		text := podText("web", "Always", twoApps)
		if result := r.applyWithin(ctx, text, testTimeout); !errors.Is(result.Err, errCtrlC) {
			t.Errorf("%v", result.Err)
		}
		if got, want := r.timeline(), "C a 0, S a 4, C b 4, R b 14"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		r.mustApply(text, run.OutcomeRestarted)
		if got := r.restartsOf("b"); got != "running 0" {
			t.Errorf("b: %s", got)
		}
		r.mustDelete()
	})
}

// TestCreatedAheadKilled covers a command that is killed after it has created a container ahead.
// The next command must remove and recreate the container, with the same restart count.
func TestCreatedAheadKilled(t *testing.T) {
	t.Parallel()
	apps := podText("web", "Always", twoApps)
	inits := podText("web", "Always", "initContainers: [{name: i, image: registry.example/setup:1}, {name: j, image: registry.example/setup:1}]", twoApps)
	for name, test := range map[string]struct {
		text    string
		at      step
		after   bool
		created string // name of the container that podrun created ahead
		// true if the container counts as a run, because the kubelet may have created it in its
		// turn
		counts bool
	}{
		"before the start of the first":     {apps, step{"StartContainer", 0}, false, "b", false},
		"after the start of the first":      {apps, step{"StartContainer", 0}, true, "b", true},
		"during the creation of the second": {apps, step{"CreateContainer", 1}, true, "b", true},
		"before the creation of the second": {apps, step{"CreateContainer", 1}, false, "b", false},
		"during the creation of an init":    {inits, step{"CreateContainer", 1}, true, "j", false},
		"before the start of an init":       {inits, step{"StartContainer", 1}, false, "j", true},
	} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/again=%v", name, again), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.rt.Script("i", critest.Behavior{After: 300 * time.Millisecond})
				r.rt.Script("j", critest.Behavior{})
				r.killAt(test.at, test.after, test.text)
				if again {
					if result := r.apply(test.text); result.Err != nil {
						t.Fatal(result.Err)
					}
					if got := r.restartsOf(test.created); !strings.HasSuffix(got, " 0") && !test.counts {
						t.Errorf("%s: %s", test.created, got)
					}
				}
				r.mustDelete()
			})
		}
	}
}

// initsOf returns a pod with two init containers.
func initsOf(policy string) string {
	return podText("web", policy, "initContainers: [{name: i, image: registry.example/setup:1}, {name: j, image: registry.example/setup:1}]",
		"containers: [{name: a, image: registry.example/app:1}]")
}

// TestCreateInitAhead checks that podrun creates an init container while the previous one runs for
// the first time. Until the container's turn, podrun must report it as not created.
func TestCreateInitAhead(t *testing.T) {
	t.Parallel()
	t.Run("succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.slowCalls()
			r.rt.Script("i", critest.Behavior{After: 5 * time.Second})
			r.rt.Script("j", critest.Behavior{})
			go func() {
				time.Sleep(4 * time.Second)
				if got := r.restartsOf("j"); got != "waiting 0" {
					t.Errorf("j while i runs: %s", got)
				}
			}()
			r.mustApply(initsOf("Always"), run.OutcomeCreated)
			if got := r.timeline(); !strings.HasPrefix(got, "C i 0, S i 4, C j 14, S j 64, C a 7") {
				t.Errorf("%s", got)
			}
			if got := r.restartsOf("j"); got != "exited 0 0" {
				t.Errorf("j: %s", got)
			}
			want := []string{"Pulled i", "Created i", "Started i", "Pulled j", "Created j", "Started j", "Pulled a", "Created a", "Started a"}
			if got := withoutDNS(r.reasons()); !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
			r.mustDelete()
		})
	})
	t.Run("strict", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.settings.StartOrder = nodeconfig.StartStrict
			r.slowCalls()
			r.rt.Script("i", critest.Behavior{After: 5 * time.Second})
			r.rt.Script("j", critest.Behavior{})
			r.mustApply(initsOf("Always"), run.OutcomeCreated)
			if got := r.timeline(); !strings.HasPrefix(got, "C i 0, S i 4, C j 64, S j 68") {
				t.Errorf("%s", got)
			}
			r.mustDelete()
		})
	})
	t.Run("fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("i", critest.Behavior{After: time.Second, ExitCode: 7})
			result := r.apply(initsOf("Never"))
			wantErr(t, result.Err, problem.Failed, "container i exited with 7")
			wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer i", "StartContainer i", "CreateContainer j", "RemoveContainer j", "StopPodSandbox")
			if got := r.restartsOf("j"); got != "waiting 0" {
				t.Errorf("j: %s", got)
			}
			r.mustDelete()
		})
	})
	t.Run("fails once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("i", critest.Behavior{After: time.Second, ExitCode: 7}, critest.Behavior{After: time.Second})
			r.rt.Script("j", critest.Behavior{})
			r.mustApply(initsOf("OnFailure"), run.OutcomeCreated)
			wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer i", "StartContainer i", "CreateContainer j", "RemoveContainer j",
				"CreateContainer i", "StartContainer i", "CreateContainer j", "StartContainer j", "CreateContainer a", "StartContainer a")
			if got := r.restartsOf("j"); got != "exited 0 0" {
				t.Errorf("j: %s", got)
			}
			r.mustDelete()
		})
	})
	t.Run("cannot be created ahead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("full"), Skip: 1, Times: 1})
			r.rt.Script("i", critest.Behavior{After: time.Minute})
			r.rt.Script("j", critest.Behavior{})
			r.mustApply(initsOf("Always"), run.OutcomeCreated)
			wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer i", "StartContainer i", "CreateContainer j", "CreateContainer j", "StartContainer j", "CreateContainer a", "StartContainer a")
			r.mustDelete()
		})
	})
}

// TestInitAheadOfOthers lets other commands act on the pod while an init container runs and the next
// one has already been created.
func TestInitAheadOfOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(r *rig)
		want string // the expected state of j afterwards
	}{
		"stop": {func(r *rig) {
			r.noError(run.StopPods(r.t.Context(), r.engine(), r.known(), run.DeleteOptions{}))
			if got := r.restartsOf("j"); got != "waiting 0" {
				r.t.Errorf("j of the stopped pod: %s", got)
			}
			for _, c := range r.rt.Containers() {
				if c.Name == "j" {
					r.t.Error("stop left the container")
				}
			}
			r.rt.Script("i", critest.Behavior{After: time.Second})
		}, "exited 0 0"},
		"update": {func(r *rig) {
			text := strings.Replace(initsOf("Always"), "name: j, image: registry.example/setup:1", "name: j, image: registry.example/setup:2", 1)
			if result := r.apply(text); result.Err != nil {
				r.t.Error(result.Err)
			}
			for _, c := range r.rt.Containers() {
				if c.Name == "j" && !strings.HasSuffix(c.Config.GetImage().GetUserSpecifiedImage(), ":2") {
					r.t.Errorf("j has the image %s", c.Config.GetImage().GetUserSpecifiedImage())
				}
			}
		}, "exited 0 0"},
		"delete": {func(r *rig) { r.mustDelete() }, "exited 0 0"},
		"wait": {func(r *rig) {
			if result := run.Wait(r.t.Context(), r.engine(), r.known()[0], run.WaitOptions{For: lifecycle.GoalStarted, Timeout: testTimeout}); result.Err != nil {
				r.t.Error(result.Err)
			}
		}, "exited 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.rt.Script("i", critest.Behavior{After: time.Minute})
				r.rt.Script("j", critest.Behavior{})
				done := make(chan run.Result)
				go func() { done <- r.apply(initsOf("Always")) }()
				time.Sleep(10 * time.Second)
				if got := r.rt.CallNames("CreateContainer"); !slices.Equal(got, []string{"CreateContainer i", "CreateContainer j"}) {
					t.Fatalf("%q", got)
				}
				test.do(r)
				<-done
				if result := r.apply(initsOf("Always")); result.Err != nil {
					t.Fatal(result.Err)
				}
				if got := r.restartsOf("j"); got != test.want {
					t.Errorf("j: %s, want %s", got, test.want)
				}
				r.mustDelete()
			})
		})
	}
}

// TestInitAheadInterrupted covers an interruption while an init container runs. The next command must
// recreate the following init container, with the same restart count.
func TestInitAheadInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("i", critest.Behavior{After: time.Minute})
		r.rt.Script("j", critest.Behavior{})
		wantErr(t, r.applyWithin(t.Context(), initsOf("Always"), 10*time.Second).Err, problem.Deadline, "init container i")
		time.Sleep(2 * time.Minute)
		if got := r.restartsOf("j"); got != "waiting 0" {
			t.Errorf("j: %s", got)
		}
		r.mustApply(initsOf("Always"), run.OutcomeRestarted)
		if got := r.restartsOf("j"); got != "exited 0 0" {
			t.Errorf("j: %s", got)
		}
		views, err := lookup.Pods(t.Context(), r.engine(), lookup.Selector{})
		if err != nil || views[0].Object.Status.Phase != corev1.PodRunning {
			t.Errorf("%v", err)
		}
		r.mustDelete()
	})
}

// TestServeCreatesAhead checks that serve creates containers before their turn, as commands do. If
// serve ends before a container's turn, the next serve must recreate the container.
func TestServeCreatesAhead(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.slowCalls()
		s.files.write(file("web"), podText("web", "Always", twoApps))
		time.Sleep(time.Minute)
		if got, want := s.timeline(), "C a 0, S a 4, C b 4, S b 14"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
	serveTest(t, func(t *testing.T, s *serving) {
		s.rt.Script("i", critest.Behavior{After: time.Minute})
		s.rt.Script("j", critest.Behavior{})
		s.files.write(file("web"), initsOf("Always"))
		time.Sleep(30 * time.Second)
		if got := s.rt.CallNames("CreateContainer"); !slices.Equal(got, []string{"CreateContainer i", "CreateContainer j"}) {
			t.Errorf("%q", got)
		}
		s.end()
		s.start()
		time.Sleep(10 * time.Minute)
		if got := s.restartsOf("j"); got != "exited 0 0" {
			t.Errorf("j: %s", got)
		}
		s.wantStarts("a", 1)
		s.wantStarts("j", 1)
		if got := s.rt.CallNames("CreateContainer"); !slices.Equal(got, []string{"CreateContainer i", "CreateContainer j", "CreateContainer j", "CreateContainer a"}) {
			t.Errorf("%q", got)
		}
	})
}
