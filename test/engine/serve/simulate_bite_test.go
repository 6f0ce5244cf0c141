package serve

import (
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

// modelStory reports events of a host to a model. The host has one pod, p, with one container, a0.
type modelStory struct {
	*model
	at  time.Time
	run *runtimeapi.ContainerStatus
	box *runtimeapi.PodSandboxStatus
}

func newModelStory(policy string) *modelStory {
	s := &modelStory{at: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), box: &runtimeapi.PodSandboxStatus{Id: "s0", Metadata: &runtimeapi.PodSandboxMetadata{Name: "p"}}}
	p := &modelPod{name: "p", runs: map[string]*modelRun{}, spec: simPod{policy: policy, apps: 1, probe: true}}
	s.model = &model{now: func() time.Time { return s.at }, pods: map[string]*modelPod{"p": p}}
	s.pass(time.Hour)
	s.change("p", "add", func(p *modelPod) { p.wanted = true })
	s.event(&runtimeapi.ContainerEventResponse{ContainerId: "s0", PodSandboxStatus: s.box, ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT})
	return s
}

func (s *modelStory) pass(d time.Duration) { s.at = s.at.Add(d) }

// look makes the model check that all due actions have happened.
func (s *modelStory) look() {
	var here []critest.Container
	if s.run != nil && s.run.FinishedAt == 0 {
		here = []critest.Container{{ID: s.run.Id, SandboxID: "s0"}}
	}
	s.check(here, map[string]string{"s0": "p"})
}

func (s *modelStory) start(attempt uint32) {
	s.run = &runtimeapi.ContainerStatus{Id: "c" + string(rune('0'+attempt)), Metadata: &runtimeapi.ContainerMetadata{Name: "a0", Attempt: attempt}, StartedAt: s.at.UnixNano()}
	s.event(&runtimeapi.ContainerEventResponse{ContainerId: s.run.Id, PodSandboxStatus: s.box, ContainersStatuses: []*runtimeapi.ContainerStatus{s.run},
		ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT})
}

func (s *modelStory) exit(code int32) {
	s.run.FinishedAt, s.run.ExitCode = s.at.UnixNano(), code
	s.event(&runtimeapi.ContainerEventResponse{ContainerId: s.run.Id, PodSandboxStatus: s.box, ContainersStatuses: []*runtimeapi.ContainerStatus{s.run},
		ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT})
}

// crash restarts the container after a run of one second and a delay.
func (s *modelStory) crash(attempt uint32, delay time.Duration) {
	s.pass(time.Second)
	s.exit(1)
	s.pass(delay)
	s.look()
	s.start(attempt)
}

// TestModelBites checks that the model reports actions that a supervisor must not take, and
// accepts those that it may take.
func TestModelBites(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, tc := range map[string]struct {
		policy string
		story  func(s *modelStory)
		want   string // the expected violation; "" means that the model accepts the story
	}{
		"the kubelet's delays": {"Always", func(s *modelStory) {
			for i, d := range []time.Duration{second, 11 * second, 20 * second, 41 * second, 80 * second, 160 * second, 300 * second, 301 * second} {
				s.crash(uint32(i+1), d)
			}
			s.pass(11 * time.Minute)
			s.exit(0)
			s.pass(second)
			s.start(9)
			s.crash(10, 10*second)
		}, ""},
		"a stop, a start": {"Always", func(s *modelStory) {
			s.change("p", "stop", nil)
			s.exit(143)
			s.pods["p"].stopped = true
			s.pass(time.Hour)
			s.look()
		}, ""},
		"a killed sick container": {"Always", func(s *modelStory) {
			s.fallSick(s.pods["p"])
			s.pass(12 * second)
			s.exit(143)
			s.pass(second)
			s.start(1)
		}, ""},
		"an outage": {"Always", func(s *modelStory) {
			s.exit(1)
			s.goAway()
			s.pass(time.Hour)
			s.look()
			s.back()
			s.pass(5 * second)
			s.look()
			s.start(1)
		}, ""},
		"too early":             {"Always", func(s *modelStory) { s.crash(1, second); s.crash(2, 9*second) }, "too early"},
		"a back-off not reset":  {"Always", func(s *modelStory) { s.crash(1, second); s.pass(11 * time.Minute); s.crash(2, 10*second) }, "was not restarted by"},
		"too late":              {"Always", func(s *modelStory) { s.crash(1, 3*second) }, "was not restarted by"},
		"never again":           {"Always", func(s *modelStory) { s.exit(1); s.pass(time.Hour); s.look() }, "was not restarted by"},
		"never started":         {"Always", func(s *modelStory) { s.pods["p"].runs = map[string]*modelRun{}; s.pass(time.Hour); s.look() }, "does not run"},
		"ended for good":        {"Never", func(s *modelStory) { s.crash(1, second) }, "exited with 1 for good"},
		"succeeded":             {"OnFailure", func(s *modelStory) { s.exit(0); s.pass(second); s.start(1) }, "exited with 0 for good"},
		"stopped for nothing":   {"Always", func(s *modelStory) { s.exit(143) }, "stopped for nothing"},
		"twice for one change":  {"Always", func(s *modelStory) { s.change("p", "new image", nil); s.exit(143); s.start(1); s.exit(143) }, "stopped for nothing"},
		"by a restart of serve": {"Always", func(s *modelStory) { s.goAway(); s.back(); s.exit(137) }, "stopped for nothing"},
		"two at a time":         {"Always", func(s *modelStory) { s.start(1) }, "started twice"},
		"a skipped attempt":     {"Always", func(s *modelStory) { s.crash(2, second) }, "attempt 2 after 0"},
		"although stopped":      {"Always", func(s *modelStory) { s.pods["p"].stopped = true; s.exit(1); s.start(1) }, "is stopped"},
		"although gone":         {"Always", func(s *modelStory) { s.pods["p"].wanted = false; s.exit(1); s.start(1) }, "nothing asks for"},
		"left behind": {"Always", func(s *modelStory) {
			s.change("p", "remove", func(p *modelPod) { p.wanted = false })
			s.pass(time.Minute)
			s.look()
		}, "containers are left"},
		"a sick one that goes on": {"Always", func(s *modelStory) { s.fallSick(s.pods["p"]); s.pass(time.Minute); s.look() }, "was not killed"},
		"killed after one probe":  {"Always", func(s *modelStory) { s.fallSick(s.pods["p"]); s.pass(5 * second); s.exit(143) }, "before its liveness probe"},
		"another sandbox": {"Always", func(s *modelStory) {
			s.pass(time.Hour)
			s.event(&runtimeapi.ContainerEventResponse{ContainerId: "s0", PodSandboxStatus: s.box, ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT})
		}, "for nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newModelStory(tc.policy)
			s.start(0)
			s.pass(5 * time.Minute)
			tc.story(s)
			all := strings.Join(s.wrong, "\n")
			if tc.want == "" && all != "" || !strings.Contains(all, tc.want) {
				t.Errorf("found %q, want %q", all, tc.want)
			}
		})
	}
}
