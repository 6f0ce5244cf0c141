package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/test/engine/rig"
)

// fakeHost implements logind. It shuts down the host when the locks have been released.
type fakeHost struct {
	mu        sync.Mutex
	preparing bool
	delay     time.Duration
	locks     int
	// time at which the last lock was released
	released time.Time
	broken   error     // error that connect returns
	events   chan bool // events of the current connection; nil if there is none
}

// connect implements supervisor.Options.Shutdowns.
func (h *fakeHost) connect(context.Context) (supervisor.Shutdowns, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return nil, h.broken
	}
	h.events = make(chan bool, 4)
	return h, nil
}

func (h *fakeHost) Events() <-chan bool { return h.events }

func (h *fakeHost) Close() error { return nil }

func (h *fakeHost) Preparing(context.Context) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.preparing, nil
}

func (h *fakeHost) DelayMax(context.Context) (time.Duration, error) { return h.delay, nil }

func (h *fakeHost) Inhibit(context.Context) (func() error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.locks++
	return sync.OnceValue(func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.locks--
		h.released = time.Now()
		return nil
	}), nil
}

// prepare announces a shutdown, or its cancellation.
func (h *fakeHost) prepare(begins bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.preparing = begins
	h.events <- begins
}

func (h *fakeHost) held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locks
}

// shutting is a host with a supervisor, whose shutdowns the test announces.
type shutting struct {
	*rig.Supervised
	host *fakeHost
}

// shutdownTest is rig.Serve on a host that announces shutdowns. Its shutdown periods are in
// seconds, by priority.
func shutdownTest(t *testing.T, periods map[int32]int64, test func(t *testing.T, s *shutting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shutting{Supervised: rig.NewSupervised(t), host: &fakeHost{delay: time.Hour}}
		s.Configure = func(_ *run.Node, o *supervisor.Options) { o.Shutdowns = s.host.connect }
		for priority, seconds := range periods {
			s.Settings.ShutdownGracePeriodByPodPriority = append(s.Settings.ShutdownGracePeriodByPodPriority,
				kubelet.ShutdownGracePeriodByPodPriority{Priority: priority, ShutdownGracePeriodSeconds: seconds})
		}
		s.Start()
		test(t, s)
		s.Finish()
	})
}

// ranked returns a pod with a priority. The pod's container has the pod's name.
func ranked(name string, priority int, policy string) string {
	return rig.PodText(name, policy, fmt.Sprintf("priority: %d", priority), "containers:", "- {name: "+name+", image: registry.example/app:1}")
}

// stops lists, for each container, the time at which it received SIGTERM, relative to since, and
// its grace period: "web 0s 5s".
func stops(s *rig.Supervised, since time.Time) []string {
	var out []string
	for _, c := range s.Runtime.Calls() {
		if c.Method == "StopContainer" && !c.Start.Before(since) {
			timeout := c.Request.(interface{ GetTimeout() int64 }).GetTimeout()
			out = append(out, fmt.Sprintf("%s %s %ds", c.Subject, c.Start.Sub(since).Truncate(time.Second), timeout))
		}
	}
	slices.Sort(out)
	return out
}

// ended checks that no container with this name is running.
func ended(s *rig.Supervised, name string) {
	s.T.Helper()
	for _, c := range s.Runtime.Containers() {
		if c.Name == name && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			s.T.Errorf("container %s runs", name)
		}
	}
}

// TestServeShutdownOrder checks that pods stop group by group, each group within its period.
// podrun must refuse new pods, and the host must continue as soon as all pods have stopped.
func TestServeShutdownOrder(t *testing.T) {
	t.Parallel()
	shutdownTest(t, map[int32]int64{0: 20, 1000: 5, 2_000_000_000: 10}, func(t *testing.T, s *shutting) {
		s.Runtime.Script("web", critest.Behavior{Forever: true, TERMAfter: 8 * time.Second})
		// This takes longer than the period of the pod's group.
		s.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		s.Runtime.Script("db", critest.Behavior{Forever: true, TERMAfter: 2 * time.Second})
		s.Files.Write(rig.File("web"), ranked("web", 0, "Always"), ranked("setup", 999, "Always"))
		s.Files.Write(rig.File("app"), ranked("app", 1000, "Always"))
		text := strings.Replace(ranked("db", 2_000_000_000, "Always"), "priority: 2000000000", "priorityClassName: system-cluster-critical", 1)
		s.Files.Write(rig.File("db"), text)
		time.Sleep(10 * time.Second)
		before := s.Running("web")
		if s.host.held() != 1 {
			t.Fatalf("%d locks, want one; warnings %q", s.host.held(), s.Warnings())
		}
		// The runtime kills app after a grace period of 5 s. Because of this delay, app exits only after its group's
		// period.
		s.Runtime.Fault("StopContainer", critest.Fault{When: critest.Slow, Delay: time.Second, Match: func(req proto.Message) bool {
			return req.(*runtimeapi.StopContainerRequest).Timeout == 5
		}})
		begun := time.Now()
		s.host.prepare(true)
		time.Sleep(time.Second)
		if r := s.Apply(rig.PodText("late", "Always", "containers: [{name: late, image: registry.example/app:1}]")); r.Err == nil || !strings.Contains(r.Err.Error(), "Pod was rejected as the node is shutting down.") {
			t.Errorf("apply during a shutdown: %v", r.Err)
		}
		s.Files.Write(rig.File("late"), rig.ServedPod("late"))
		time.Sleep(time.Minute)
		if want := []string{"app 8s 5s", "db 13s 10s", "setup 0s 20s", "web 0s 20s"}; !slices.Equal(stops(s.Supervised, begun), want) {
			t.Errorf("stops %q, want %q", stops(s.Supervised, begun), want)
		}
		if took := s.host.released.Sub(begun); s.host.held() != 0 || took < 15*time.Second || took > 16*time.Second {
			t.Errorf("%d locks, released after %s", s.host.held(), took)
		}
		if s.Warned("stop pod default/app before the host shuts down: it did not terminate within the grace period of its priority group (5s); the shutdown continues") != 1 || s.Warned("before the host shuts down") != 1 {
			t.Errorf("warnings %q", s.Warnings())
		}
		st := statusOf(s.Supervised, "web")
		if st.Phase != corev1.PodFailed || st.Reason != "Terminated" || st.Message != "Pod was terminated in response to imminent node shutdown." {
			t.Errorf("status %s %s %q", st.Phase, st.Reason, st.Message)
		}
		if !slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Reason == "TerminationByKubelet"
		}) {
			t.Errorf("conditions %+v", st.Conditions)
		}
		ended(s.Supervised, "web")
		s.Absent("late")

		// If podrun restarts during a shutdown, it must not start pods.
		s.Restart()
		time.Sleep(time.Minute)
		s.WantStarts("web", 1)
		ended(s.Supervised, "web")

		// After a cancellation, all pods must run again in their existing sandboxes and directories.
		s.host.prepare(false)
		time.Sleep(30 * time.Second)
		after := s.Running("web")
		if after.ID == before.ID || s.host.held() != 1 {
			t.Errorf("container %s, was %s; %d locks", after.ID, before.ID, s.host.held())
		}
		s.Running("late")
		s.Running("db")
		if st := statusOf(s.Supervised, "web"); st.Phase != corev1.PodRunning || st.Reason != "" || st.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("status after the cancellation %s %s, %d restarts", st.Phase, st.Reason, st.ContainerStatuses[0].RestartCount)
		}
	})
}

// TestServeAfterReboot covers pods that were stopped for a shutdown. After the boot, they must
// run again according to their restart policy. A pod that a user has stopped must remain
// stopped.
func TestServeAfterReboot(t *testing.T) {
	t.Parallel()
	shutdownTest(t, map[int32]int64{0: 20}, func(t *testing.T, s *shutting) {
		s.Files.Write(rig.File("web"), ranked("web", 0, "Always"), ranked("setup", 0, "Never"), ranked("app", 0, "Always"))
		s.MustApply(rig.PodText("db", "Always", "containers: [{name: db, image: registry.example/app:1}]"), run.OutcomeCreated)
		time.Sleep(10 * time.Second)
		s.NoError(run.StopPods(t.Context(), s.Engine(), s.Known("app"), run.DeleteOptions{}))
		time.Sleep(10 * time.Second)
		s.host.prepare(true)
		time.Sleep(time.Minute)
		ended(s.Supervised, "web")
		ended(s.Supervised, "db")
		s.End()
		s.Runtime.Restart()
		s.host.preparing = false
		if err := os.WriteFile(s.Layout().Serve().ShuttingDown(), []byte("the boot before"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Start()
		time.Sleep(time.Minute)
		s.Running("web")
		s.Running("db")
		ended(s.Supervised, "app")
		ended(s.Supervised, "setup")
		if st := statusOf(s.Supervised, "setup"); st.Phase != corev1.PodFailed || st.Reason != "Terminated" {
			t.Errorf("a pod that is not restarted: %s %s", st.Phase, st.Reason)
		}
		if _, err := os.Stat(s.Layout().Serve().ShuttingDown()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the record of the shutdown still exists: %v", err)
		}
	})
}

// TestServeWithoutShutdowns checks that serve does not take a lock until a reload sets shutdown
// periods. If serve cannot connect to logind, it must report this once, and retry.
func TestServeWithoutShutdowns(t *testing.T) {
	t.Parallel()
	shutdownTest(t, nil, func(t *testing.T, s *shutting) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		if s.host.held() != 0 {
			t.Error("a lock is held")
		}
		s.host.broken = errors.New("no system bus")
		s.Settings.ShutdownGracePeriod = 30 * time.Second
		s.Supervisor.Reload(s.Engine())
		time.Sleep(5 * time.Minute)
		if got := s.Warned("podrun cannot stop pods before the host shuts down: no system bus"); got != 1 {
			t.Errorf("reported %d times: %q", got, s.Warnings())
		}
		s.host.mu.Lock()
		s.host.broken, s.host.delay = nil, 5*time.Second
		s.host.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if s.host.held() != 1 || s.Warned("logind delays a shutdown by at most 5s, but pods may take 30s to terminate") != 1 {
			t.Errorf("%d locks, warnings %q", s.host.held(), s.Warnings())
		}
		// This happens when the message bus restarts.
		close(s.host.events)
		time.Sleep(2 * time.Minute)
		if s.host.held() != 1 {
			t.Errorf("%d locks after a restart of the bus", s.host.held())
		}
		s.Running("web")
	})
}
