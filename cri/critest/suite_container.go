package critest

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
)

func (s *suite) testContainerLife(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "sh", "-c", "while [ ! -e /host/go ]; do sleep 0.02; done; exit 3")
	let := lets(t, config)
	config.Annotations = map[string]string{"note": "kept"}
	id := p.create(t, config)
	st := s.status(t, id)
	wantState(t, st, runtimeapi.ContainerState_CONTAINER_CREATED)
	if st.GetCreatedAt() == 0 || st.GetStartedAt() != 0 || st.GetFinishedAt() != 0 {
		t.Errorf("wrong timestamps of a created container: %v", st)
	}
	if !proto.Equal(st.GetMetadata(), config.GetMetadata()) || st.GetAnnotations()["note"] != "kept" || st.GetLabels()["name"] != "app" {
		t.Errorf("the metadata, labels or annotations in the status differ from the config: %v", st)
	}
	if err := s.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	st = s.status(t, id)
	wantState(t, st, runtimeapi.ContainerState_CONTAINER_RUNNING)
	if st.GetStartedAt() <= st.GetCreatedAt() || st.GetFinishedAt() != 0 {
		t.Errorf("wrong timestamps of a running container: %v", st)
	}
	if err := s.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("starting a running container: got error %v, want one that contains state", err)
	}
	s.checkInfo(t, id)
	let()
	st = s.ended(t, id)
	wantExit(t, st, 3, "Error")
	if st.GetFinishedAt() <= st.GetStartedAt() {
		t.Errorf("wrong timestamps of an exited container: %v", st)
	}
	if err := s.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("starting an exited container: got error %v, want one that contains state", err)
	}
}

// checkInfo checks that the verbose status of a container contains a process ID.
func (s *suite) checkInfo(t *testing.T, id string) {
	t.Helper()
	resp, err := s.ContainerStatus(t.Context(), id, true)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		SandboxID string `json:"sandboxID"`
		PID       *int   `json:"pid"`
	}
	if err := json.Unmarshal([]byte(resp.GetInfo()["info"]), &info); err != nil || info.SandboxID == "" || info.PID == nil {
		t.Errorf("verbose info %q: %v", resp.GetInfo()["info"], err)
	}
}

func (s *suite) testContainerName(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "true")
	id := p.create(t, config)
	again, err := p.tryCreate(t, config)
	if s.cfg.Profile.Repeats && (err != nil || again != id) {
		t.Errorf("CreateContainer with an identical request: got %q, %v; want %q", again, err, id)
	}
	if !s.cfg.Profile.Repeats {
		s.wantReserved(t, p, id, err)
	}
	next := proto.CloneOf(config)
	next.Metadata.Attempt = 1
	p.create(t, next)
	if err := s.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	// The name is available again.
	p.create(t, config)
}

// wantReserved checks the error for a second container with the name app.
func (s *suite) wantReserved(t *testing.T, p *pod, id string, err error) {
	t.Helper()
	wantCode(t, err, codes.Unknown, codes.FailedPrecondition)
	m := p.config.GetMetadata()
	name := "app_" + m.GetName() + "_" + m.GetNamespace() + "_" + m.GetUid() + "_0"
	want := `name "` + name + `" is reserved for "` + id + `"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func (s *suite) testContainerEnds(t *testing.T) {
	p := s.pod(t)
	for name, c := range map[string]struct {
		command []string
		code    int32
		reason  string
	}{
		"zero":      {[]string{"true"}, 0, "Completed"},
		"three":     {[]string{"sh", "-c", "exit 3"}, 3, "Error"},
		"not-found": {[]string{"sh", "-c", "no-such-program"}, 127, "Error"},
		"own-kill":  {[]string{"sh", "-c", "kill -9 $$; exit 7"}, 7, "Error"},
	} {
		wantExit(t, s.ended(t, p.start(t, p.container(name, c.command...))), c.code, c.reason)
	}
	shared := p.container("shared-pids", "sh", "-c", "kill -9 $$; exit 7")
	shared.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_NODE
	wantExit(t, s.ended(t, p.start(t, shared)), 137, "Error")
}

// testNotStarted runs a program that does not exist. Either StartContainer fails, and the state of the container
// is exited, or CreateContainer fails, and no container exists.
func (s *suite) testNotStarted(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "/no/such/program")
	if s.cfg.Profile.CreateRuns {
		_, err := p.tryCreate(t, config)
		if why, absent, ok := cri.CommandFailure(err); !ok || !absent || !strings.Contains(why, "/no/such/program") {
			t.Errorf("CreateContainer: %v", err)
		}
		if list, err := s.ListContainers(t.Context(), config.GetLabels()); err != nil || len(list) > 0 {
			t.Errorf("the failed CreateContainer left containers: %v, %v", list, err)
		}
		config.Command = []string{"true"}
		// The name is available again.
		p.create(t, config)
		return
	}
	id := p.create(t, config)
	err := s.StartContainer(t.Context(), id)
	if err == nil || !strings.Contains(err.Error(), `exec: "/no/such/program": `) {
		t.Errorf("StartContainer: %v", err)
	}
	st := s.status(t, id)
	wantState(t, st, runtimeapi.ContainerState_CONTAINER_EXITED)
	wantExit(t, st, 128, "StartError")
	if st.GetStartedAt() != 0 {
		t.Errorf("startedAt is %d, although the container was not started", st.GetStartedAt())
	}
	if !strings.Contains(st.GetMessage(), "/no/such/program") {
		t.Errorf("the status has the message %q, which does not name the program", st.GetMessage())
	}
}

func (s *suite) testContainerList(t *testing.T) {
	p := s.pod(t)
	a := p.create(t, p.container("a", "true"))
	b := p.sh(t, "b", "sleep 1000")
	uid := p.config.GetMetadata().GetUid()
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	for _, c := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		a, b   bool
	}{
		{"none", nil, true, true},
		{"state", &runtimeapi.ContainerFilter{State: running}, false, true},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: p.id}, true, true},
		{"other sandbox", &runtimeapi.ContainerFilter{PodSandboxId: a}, false, false},
		{"labels", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"uid": uid, "name": "a"}}, true, false},
		{"id", &runtimeapi.ContainerFilter{Id: b}, false, true},
		{"beginning of id", &runtimeapi.ContainerFilter{Id: a[:13]}, true, false},
	} {
		resp, err := s.Runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: c.filter})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := map[string]*runtimeapi.Container{}
		for _, found := range resp.GetContainers() {
			got[found.GetId()] = found
		}
		if (got[a] != nil) != c.a || (got[b] != nil) != c.b {
			t.Errorf("filter by %s: listed %v and %v, want %v and %v", c.name, got[a] != nil, got[b] != nil, c.a, c.b)
		}
		if got[b] != nil && (got[b].GetPodSandboxId() != p.id || got[b].GetState() != running.GetState() || got[b].GetImageRef() == "") {
			t.Errorf("wrong list entry of the running container: %v", got[b])
		}
	}
}

func (s *suite) testResources(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "sleep", "1000")
	config.Linux.Resources = &runtimeapi.LinuxContainerResources{CpuShares: 200, MemoryLimitInBytes: 64 << 20}
	id := p.start(t, config)
	if got := s.status(t, id).GetResources().GetLinux(); got.GetCpuShares() != 200 || got.GetMemoryLimitInBytes() != 64<<20 {
		t.Errorf("the status has resources %v, want those of the config", got)
	}
	_, err := s.Runtime.UpdateContainerResources(t.Context(), &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{CpuShares: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.status(t, id).GetResources().GetLinux(); got.GetCpuShares() != 100 {
		t.Errorf("the status has resources %v, want those of the update", got)
	}
}
