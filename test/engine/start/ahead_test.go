package start

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
	"github.com/podrun/podrun/test/engine/rig"
)

// slowCalls makes CreateContainer take 0.4 s, and StartContainer 1 s.
func slowCalls(r *rig.Host) {
	r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Slow, Delay: 400 * time.Millisecond})
	r.Runtime.Fault("StartContainer", critest.Fault{When: critest.Slow, Delay: time.Second})
}

// timeline lists the calls that create (C), start (S) and remove (R) containers, in the order in which
// they begin. Each call is followed by its time, in tenths of a second since the first call: "C a 0, S
// a 4".
func timeline(r *rig.Host) string {
	letters := map[string]string{"CreateContainer": "C", "StartContainer": "S", "RemoveContainer": "R"}
	calls := slices.DeleteFunc(r.Runtime.Calls(), func(c critest.Call) bool { return letters[c.Method] == "" })
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

// TestCreateAhead checks that podrun creates an app container while the previous one starts
// (container.TestCreatesAfter: unless that start can change data that podrun reads for the creation). The
// order of the events must not change.
func TestCreateAhead(t *testing.T) {
	t.Parallel()
	spec := func(a, b string, more ...string) string {
		return rig.PodText("web", "Always", append(more, "containers:", "- {name: a, image: registry.example/app:1"+a+"}", "- {name: b, image: registry.example/app:1"+b+"}")...)
	}
	const data = "volumes: [{name: data, emptyDir: {}}]"
	for name, test := range map[string]struct{ setting, text, want string }{
		"three": {"", rig.PodText("web", "Always", strings.Replace(twoApps, "]", ", {name: c, image: registry.example/app:1}]", 1)),
			"C a 0, S a 4, C b 4, S b 14, C c 14, S c 24"},
		"strict":                  {nodeconfig.StartStrict, rig.PodText("web", "Always", twoApps), inTurn},
		"a volume":                {"", spec("", ", volumeMounts: [{name: data, mountPath: /d}]", data), "C a 0, S a 4, C b 4, S b 14"},
		"an image that is pulled": {"", strings.Replace(rig.PodText("web", "Always", twoApps), "name: b, image: registry.example/app:1", "name: b, image: registry.example/far:1", 1), "C a 0, S a 4, C b 70, S b 74"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Settings.StartOrder = test.setting
				slowCalls(r)
				r.Runtime.AddRemote(critest.Image{Name: "registry.example/far:1", Entrypoint: []string{"/server"}})
				r.Runtime.Fault("PullImage", critest.Fault{When: critest.Slow, Delay: 7 * time.Second})
				r.Runtime.ScriptExec("a", func([]string) *critest.Exec { return &critest.Exec{} })
				r.Runtime.ScriptExec("b", func([]string) *critest.Exec { return &critest.Exec{} })
				r.MustApply(test.text, run.OutcomeCreated)
				if got := timeline(r); got != test.want {
					t.Errorf("\n got %s\nwant %s", got, test.want)
				}
				var events []string
				for _, reason := range r.Reasons() {
					if verb, name, ok := strings.Cut(reason, " "); ok && (verb == "Created" || verb == "Started") {
						events = append(events, verb+" "+name)
					}
				}
				if got := strings.Join(events, ", "); !strings.HasPrefix(got, "Created a, Started a, Created b, Started b") {
					t.Errorf("events: %s", got)
				}
				r.MustDelete()
			})
		})
	}
}

// TestCreatedAheadOfFailure covers a container that fails to start: podrun must start the one that it created
// at the same time, as the kubelet does. If podrun fails to create a container ahead, it must not report this,
// because it retries the creation when the container's turn comes.
func TestCreatedAheadOfFailure(t *testing.T) {
	t.Parallel()
	text := rig.PodText("web", "Always", twoApps)
	t.Run("start of the first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			slowCalls(r)
			r.Runtime.Script("a", critest.Behavior{StartErr: "full"}, critest.Behavior{Forever: true})
			rig.WantErr(t, r.Apply(text).Err, problem.Runtime, "pod default/web: container a", "full")
			if got, want := timeline(r), "C a 0, S a 4, C b 4, S b 14"; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if got := restartsOf(r, "b"); got != "running 0" {
				t.Errorf("b: %s", got)
			}
			r.MustApply(text, run.OutcomeRestarted)
			r.MustDelete()
		})
	})
	t.Run("creation of the second", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("full"), Skip: 1, Times: 1})
			slowCalls(r)
			r.MustApply(text, run.OutcomeCreated)
			if got, want := timeline(r), "C a 0, S a 4, C b 4, C b 14, S b 18"; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if r.Emitted("Failed b", "") {
				t.Errorf("%q", r.Reasons())
			}
			r.MustDelete()
		})
	})
	t.Run("creation of the second, always", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("full"), Skip: 1})
			rig.WantErr(t, r.Apply(text).Err, problem.Runtime, "pod default/web: container b", "full")
			if n := rig.Count(r.Reasons(), "Failed b"); n != 1 {
				t.Errorf("%d events among %q", n, r.Reasons())
			}
			r.MustDelete()
		})
	})
}

// restartsOf returns the state of a container in the pod's status, and the container's restart
// count.
func restartsOf(r *rig.Host, name string) string {
	r.T.Helper()
	views, err := lookup.Pods(r.T.Context(), r.Engine(), lookup.Selector{})
	if err != nil || len(views) != 1 {
		r.T.Fatal(views, err)
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
		r := rig.New(t)
		slowCalls(r)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(900*time.Millisecond, func() { cancel(rig.ErrInterrupted) })
		text := rig.PodText("web", "Always", twoApps)
		if result := r.ApplyWithin(ctx, text, rig.Timeout); !errors.Is(result.Err, rig.ErrInterrupted) {
			t.Errorf("%v", result.Err)
		}
		if got, want := timeline(r), "C a 0, S a 4, C b 4, R b 14"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		r.MustApply(text, run.OutcomeRestarted)
		if got := restartsOf(r, "b"); got != "running 0" {
			t.Errorf("b: %s", got)
		}
		r.MustDelete()
	})
}

// TestCreatedAheadKilled covers a command that is killed after it has created a container ahead.
// The next command must remove and recreate the container, with the same restart count.
func TestCreatedAheadKilled(t *testing.T) {
	t.Parallel()
	apps := rig.PodText("web", "Always", twoApps)
	inits := rig.PodText("web", "Always", "initContainers: [{name: i, image: registry.example/setup:1}, {name: j, image: registry.example/setup:1}]", twoApps)
	for name, test := range map[string]struct {
		text    string
		at      rig.Step
		after   bool
		created string // name of the container that podrun created ahead
		// true if the container counts as a run, because the kubelet may have created it in its
		// turn
		counts bool
	}{
		"before the start of the first":     {apps, rig.Step{Method: "StartContainer", N: 0}, false, "b", false},
		"after the start of the first":      {apps, rig.Step{Method: "StartContainer", N: 0}, true, "b", true},
		"during the creation of the second": {apps, rig.Step{Method: "CreateContainer", N: 1}, true, "b", true},
		"before the creation of the second": {apps, rig.Step{Method: "CreateContainer", N: 1}, false, "b", false},
		"during the creation of an init":    {inits, rig.Step{Method: "CreateContainer", N: 1}, true, "j", false},
		"before the start of an init":       {inits, rig.Step{Method: "StartContainer", N: 1}, false, "j", true},
	} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/again=%v", name, again), func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				r.Runtime.Script("i", critest.Behavior{After: 300 * time.Millisecond})
				r.Runtime.Script("j", critest.Behavior{})
				r.KillAt(test.at, test.after, test.text)
				if again {
					if result := r.Apply(test.text); result.Err != nil {
						t.Fatal(result.Err)
					}
					if got := restartsOf(r, test.created); !strings.HasSuffix(got, " 0") && !test.counts {
						t.Errorf("%s: %s", test.created, got)
					}
				}
				r.MustDelete()
			})
		}
	}
}

// initsOf returns a pod with two init containers.
func initsOf(policy string) string {
	return rig.PodText("web", policy, "initContainers: [{name: i, image: registry.example/setup:1}, {name: j, image: registry.example/setup:1}]",
		"containers: [{name: a, image: registry.example/app:1}]")
}

// TestCreateInitAhead checks that podrun creates an init container while the previous one runs for
// the first time. Until the container's turn, podrun must report it as not created.
func TestCreateInitAhead(t *testing.T) {
	t.Parallel()
	t.Run("succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			slowCalls(r)
			r.Runtime.Script("i", critest.Behavior{After: 5 * time.Second})
			r.Runtime.Script("j", critest.Behavior{})
			go func() {
				time.Sleep(4 * time.Second)
				if got := restartsOf(r, "j"); got != "waiting 0" {
					t.Errorf("j while i runs: %s", got)
				}
			}()
			r.MustApply(initsOf("Always"), run.OutcomeCreated)
			if got := timeline(r); !strings.HasPrefix(got, "C i 0, S i 4, C j 14, S j 64, C a 7") {
				t.Errorf("%s", got)
			}
			if got := restartsOf(r, "j"); got != "exited 0 0" {
				t.Errorf("j: %s", got)
			}
			want := []string{"Pulled i", "Created i", "Started i", "Pulled j", "Created j", "Started j", "Pulled a", "Created a", "Started a"}
			if got := withoutDNS(r.Reasons()); !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
			r.MustDelete()
		})
	})
	t.Run("fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("i", critest.Behavior{After: time.Second, ExitCode: 7})
			result := r.Apply(initsOf("Never"))
			rig.WantErr(t, result.Err, problem.Failed, "container i exited with 7")
			rig.WantChanges(t, r.Runtime, "RunPodSandbox", "CreateContainer i", "StartContainer i", "CreateContainer j", "RemoveContainer j", "StopPodSandbox")
			if got := restartsOf(r, "j"); got != "waiting 0" {
				t.Errorf("j: %s", got)
			}
			r.MustDelete()
		})
	})
	t.Run("fails once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("i", critest.Behavior{After: time.Second, ExitCode: 7}, critest.Behavior{After: time.Second})
			r.Runtime.Script("j", critest.Behavior{})
			r.MustApply(initsOf("OnFailure"), run.OutcomeCreated)
			rig.WantChanges(t, r.Runtime, "RunPodSandbox", "CreateContainer i", "StartContainer i", "CreateContainer j", "RemoveContainer j",
				"CreateContainer i", "StartContainer i", "CreateContainer j", "StartContainer j", "CreateContainer a", "StartContainer a")
			if got := restartsOf(r, "j"); got != "exited 0 0" {
				t.Errorf("j: %s", got)
			}
			r.MustDelete()
		})
	})
	t.Run("cannot be created ahead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("full"), Skip: 1, Times: 1})
			r.Runtime.Script("i", critest.Behavior{After: time.Minute})
			r.Runtime.Script("j", critest.Behavior{})
			r.MustApply(initsOf("Always"), run.OutcomeCreated)
			rig.WantChanges(t, r.Runtime, "RunPodSandbox", "CreateContainer i", "StartContainer i", "CreateContainer j", "CreateContainer j", "StartContainer j", "CreateContainer a", "StartContainer a")
			r.MustDelete()
		})
	})
}

// TestInitAheadOfOthers lets other commands act on the pod while an init container runs and the next
// one has already been created.
func TestInitAheadOfOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(r *rig.Host)
		want string // the expected state of j afterwards
	}{
		"stop": {func(r *rig.Host) {
			r.NoError(run.StopPods(r.T.Context(), r.Engine(), r.Known(), run.DeleteOptions{}))
			if got := restartsOf(r, "j"); got != "waiting 0" {
				r.T.Errorf("j of the stopped pod: %s", got)
			}
			for _, c := range r.Runtime.Containers() {
				if c.Name == "j" {
					r.T.Error("stop left the container")
				}
			}
			r.Runtime.Script("i", critest.Behavior{After: time.Second})
		}, "exited 0 0"},
		"update": {func(r *rig.Host) {
			text := strings.Replace(initsOf("Always"), "name: j, image: registry.example/setup:1", "name: j, image: registry.example/setup:2", 1)
			if result := r.Apply(text); result.Err != nil {
				r.T.Error(result.Err)
			}
			for _, c := range r.Runtime.Containers() {
				if c.Name == "j" && !strings.HasSuffix(c.Config.GetImage().GetUserSpecifiedImage(), ":2") {
					r.T.Errorf("j has the image %s", c.Config.GetImage().GetUserSpecifiedImage())
				}
			}
		}, "exited 0 0"},
		"delete": {func(r *rig.Host) { r.MustDelete() }, "exited 0 0"},
		"wait": {func(r *rig.Host) {
			if result := run.Wait(r.T.Context(), r.Engine(), r.Known()[0], run.WaitOptions{For: lifecycle.GoalStarted, Timeout: rig.Timeout}); result.Err != nil {
				r.T.Error(result.Err)
			}
		}, "exited 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Script("i", critest.Behavior{After: time.Minute})
				r.Runtime.Script("j", critest.Behavior{})
				done := make(chan run.Result)
				go func() { done <- r.Apply(initsOf("Always")) }()
				time.Sleep(10 * time.Second)
				if got := r.Runtime.CallNames("CreateContainer"); !slices.Equal(got, []string{"CreateContainer i", "CreateContainer j"}) {
					t.Fatalf("%q", got)
				}
				test.do(r)
				<-done
				if result := r.Apply(initsOf("Always")); result.Err != nil {
					t.Fatal(result.Err)
				}
				if got := restartsOf(r, "j"); got != test.want {
					t.Errorf("j: %s, want %s", got, test.want)
				}
				r.MustDelete()
			})
		})
	}
}

// TestInitAheadInterrupted covers an interruption while an init container runs. The next command must
// recreate the following init container, with the same restart count.
func TestInitAheadInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("i", critest.Behavior{After: time.Minute})
		r.Runtime.Script("j", critest.Behavior{})
		rig.WantErr(t, r.ApplyWithin(t.Context(), initsOf("Always"), 10*time.Second).Err, problem.Deadline, "init container i")
		time.Sleep(2 * time.Minute)
		if got := restartsOf(r, "j"); got != "waiting 0" {
			t.Errorf("j: %s", got)
		}
		r.MustApply(initsOf("Always"), run.OutcomeRestarted)
		if got := restartsOf(r, "j"); got != "exited 0 0" {
			t.Errorf("j: %s", got)
		}
		views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
		if err != nil || views[0].Object.Status.Phase != corev1.PodRunning {
			t.Errorf("%v", err)
		}
		r.MustDelete()
	})
}

// TestServeCreatesAhead checks that serve creates containers before their turn, as commands do. If
// serve ends before a container's turn, the next serve must recreate the container.
func TestServeCreatesAhead(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		slowCalls(s.Host)
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", twoApps))
		time.Sleep(time.Minute)
		if got, want := timeline(s.Host), "C a 0, S a 4, C b 4, S b 14"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Runtime.Script("i", critest.Behavior{After: time.Minute})
		s.Runtime.Script("j", critest.Behavior{})
		s.Files.Write(rig.File("web"), initsOf("Always"))
		time.Sleep(30 * time.Second)
		if got := s.Runtime.CallNames("CreateContainer"); !slices.Equal(got, []string{"CreateContainer i", "CreateContainer j"}) {
			t.Errorf("%q", got)
		}
		s.End()
		s.Start()
		time.Sleep(10 * time.Minute)
		if got := restartsOf(s.Host, "j"); got != "exited 0 0" {
			t.Errorf("j: %s", got)
		}
		s.WantStarts("a", 1)
		s.WantStarts("j", 1)
		if got := s.Runtime.CallNames("CreateContainer"); !slices.Equal(got, []string{"CreateContainer i", "CreateContainer j", "CreateContainer j", "CreateContainer a"}) {
			t.Errorf("%q", got)
		}
	})
}
