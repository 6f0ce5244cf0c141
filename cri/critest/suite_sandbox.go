package critest

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// drop stops and removes a sandbox.
func (s *suite) drop(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := s.StopPodSandbox(ctx, id); err != nil {
		t.Errorf("StopPodSandbox: %v", err)
	}
	if err := s.RemovePodSandbox(ctx, id); err != nil {
		t.Errorf("RemovePodSandbox: %v", err)
	}
}

func (s *suite) sandboxStatus(t *testing.T, id string) *runtimeapi.PodSandboxStatus {
	t.Helper()
	st, err := s.PodSandboxStatus(t.Context(), id)
	if err != nil {
		t.Fatalf("PodSandboxStatus: %v", err)
	}
	return st
}

func (s *suite) testSandboxLife(t *testing.T) {
	p := s.pod(t)
	st := s.sandboxStatus(t, p.id)
	if st.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		t.Errorf("a new sandbox is %s", st.GetState())
	}
	if !proto.Equal(st.GetMetadata(), p.config.GetMetadata()) || st.GetLabels()["uid"] != p.config.GetMetadata().GetUid() {
		t.Errorf("the metadata or labels in the status differ from the config: %v", st)
	}
	if age := time.Since(time.Unix(0, st.GetCreatedAt())); age < -time.Second || age > 10*time.Minute {
		t.Errorf("a new sandbox was created %v ago", age)
	}
	for range 2 {
		if err := s.StopPodSandbox(t.Context(), p.id); err != nil {
			t.Errorf("StopPodSandbox: %v", err)
		}
	}
	if st := s.sandboxStatus(t, p.id); st.GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("a stopped sandbox is %s", st.GetState())
	}
	for range 2 {
		if _, err := s.Runtime.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
			t.Errorf("RemovePodSandbox: %v", err)
		}
	}
	_, err := s.PodSandboxStatus(t.Context(), p.id)
	wantCode(t, err, codes.NotFound)
}

func (s *suite) testSandboxName(t *testing.T) {
	p := s.pod(t)
	again, err := s.RunPodSandbox(t.Context(), p.config, "")
	if s.cfg.Profile.Repeats && (err != nil || again != p.id) {
		t.Errorf("RunPodSandbox with an identical request: got %q, %v; want %q", again, err, p.id)
	}
	if !s.cfg.Profile.Repeats {
		s.wantSandboxReserved(t, p, err)
	}
	next := proto.CloneOf(p.config)
	next.Metadata.Attempt = 1
	if s.run(t, next).id == p.id {
		t.Error("sandboxes of different attempts have the same ID")
	}
	s.drop(t, p.id)
	// The name is available again.
	s.run(t, p.config)
}

// wantSandboxReserved checks the error for a second sandbox with the same name.
func (s *suite) wantSandboxReserved(t *testing.T, p *pod, err error) {
	t.Helper()
	wantCode(t, err, codes.Unknown, codes.FailedPrecondition)
	name := sandboxName(p.config.GetMetadata())
	want := `failed to reserve sandbox name "` + name + `": name "` + name + `" is reserved for "` + p.id + `"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func (s *suite) testSandboxAddress(t *testing.T) {
	p := s.pod(t)
	st := s.sandboxStatus(t, p.id)
	if ip, err := netip.ParseAddr(st.GetNetwork().GetIp()); err != nil || !ip.IsValid() {
		t.Errorf("the pod's IP is %q: %v", st.GetNetwork().GetIp(), err)
	}
	if st.GetLinux().GetNamespaces().GetOptions().GetPid() != runtimeapi.NamespaceMode_CONTAINER {
		t.Errorf("the namespaces in the status differ from the config: %v", st.GetLinux())
	}
	if err := s.StopPodSandbox(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	if ip := s.sandboxStatus(t, p.id).GetNetwork().GetIp(); (ip != "") != s.cfg.Profile.KeepsIPs {
		t.Errorf("a stopped sandbox has the IP %q", ip)
	}

	host := s.sandboxConfig(t)
	host.Hostname = ""
	host.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	if ip := s.sandboxStatus(t, s.run(t, host).id).GetNetwork().GetIp(); ip != "" {
		t.Errorf("a sandbox on the host's network has the IP %s", ip)
	}
}

// testSandboxStop checks that the runtime kills a sandbox's containers when it stops the sandbox, and removes the
// containers when it removes the sandbox.
func (s *suite) testSandboxStop(t *testing.T) {
	p := s.pod(t)
	running := p.sh(t, "running", "sleep 1000")
	created := p.create(t, p.container("created", "true"))
	if err := s.StopPodSandbox(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	wantExit(t, s.ended(t, running), 137, "Error")
	if !s.cfg.Profile.StopsCreated {
		wantState(t, s.status(t, created), runtimeapi.ContainerState_CONTAINER_CREATED)
	}
	if err := s.StartContainer(t.Context(), created); err == nil {
		t.Error("StartContainer in a stopped sandbox succeeded")
	}
	_, err := p.tryCreate(t, p.container("late", "true"))
	wantCode(t, err, codes.NotFound, codes.Unknown)
	if err := s.RemovePodSandbox(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{running, created} {
		_, err := s.ContainerStatus(t.Context(), id, false)
		wantCode(t, err, codes.NotFound)
	}
	_, err = p.tryCreate(t, p.container("later", "true"))
	wantCode(t, err, status.Code(s.cfg.Profile.noSandbox(p.id)))
}

// testSandboxStopTERM stops a sandbox with a program that exits on TERM and a program that ignores it. The runtime
// either kills both immediately, or sends TERM and kills the second one shortly before the call's deadline. The test
// calls the service directly, because the client stops containers before their sandbox.
func (s *suite) testSandboxStopTERM(t *testing.T) {
	p := s.pod(t)
	obeys := p.sh(t, "obeys", "trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done")
	ignores := p.sh(t, "ignores", "trap '' TERM; echo up; while :; do sleep 0.05; done")
	p.up(t, "obeys")
	p.up(t, "ignores")
	waits := s.cfg.Profile.WaitsForTERM
	code, limit, atOnce := int32(137), 60*time.Second, 20*time.Second
	// A runtime that sends TERM waits until a second before the deadline.
	if waits {
		code, limit, atOnce = 4, 6*time.Second, 4*time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begun := time.Now()
	_, err := s.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
	took := time.Since(begun)
	// The runtime had a second to kill the program, which was not sufficient.
	if waits && status.Code(err) == codes.DeadlineExceeded {
		err = s.StopPodSandbox(t.Context(), p.id)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, s.status(t, obeys), code, "Error")
	wantExit(t, s.status(t, ignores), 137, "Error")
	if waited := took > atOnce; waited != waits {
		t.Errorf("the call took %v", took)
	}
}

func (s *suite) testSandboxList(t *testing.T) {
	a, b := s.pod(t), s.pod(t)
	if err := s.StopPodSandbox(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	both := map[string]bool{a.id: true, b.id: true}
	for _, c := range []struct {
		name   string
		filter *runtimeapi.PodSandboxFilter
		a, b   bool
	}{
		{"none", nil, true, true},
		{"state", &runtimeapi.PodSandboxFilter{State: ready}, true, false},
		{"label", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"uid": b.config.GetMetadata().GetUid()}}, false, true},
		{"other label", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"uid": "none"}}, false, false},
		{"id", &runtimeapi.PodSandboxFilter{Id: a.id}, true, false},
		{"beginning of id", &runtimeapi.PodSandboxFilter{Id: b.id[:13]}, false, true},
		{"unknown id", &runtimeapi.PodSandboxFilter{Id: "0123456789abcdef"}, false, false},
	} {
		resp, err := s.Runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: c.filter})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := map[string]bool{}
		for _, p := range resp.GetItems() {
			got[p.GetId()] = both[p.GetId()]
		}
		if got[a.id] != c.a || got[b.id] != c.b {
			t.Errorf("filter by %s: listed %v and %v, want %v and %v", c.name, got[a.id], got[b.id], c.a, c.b)
		}
	}
}

func (s *suite) testUnknownHandler(t *testing.T) {
	config := s.sandboxConfig(t)
	id, err := s.RunPodSandbox(t.Context(), config, "no-such-handler")
	if err == nil {
		s.drop(t, id)
	}
	wantCode(t, err, codes.Unknown)
	// The name is available again.
	s.run(t, config)
}
