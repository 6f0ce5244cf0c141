package critest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
)

// SuiteConfig contains the data about a runtime that the suite requires.
type SuiteConfig struct {
	// present, or available from a registry; it must be busybox, with sh as its program
	Image        string
	CgroupParent string // parent cgroup of every sandbox
	LogDir       string // directory for logs; it must exist
	Profile      Profile
}

// suite is a run of the tests on one runtime.
type suite struct {
	*cri.Client
	cfg SuiteConfig
}

// Suite tests that a runtime behaves as its profile describes. The fake runtime passes it with each
// profile, and containerd 1.6 to 2.4 pass it with containerd's profile. This shows that the fake
// behaves like a real runtime. The suite removes everything that it creates, except the image that
// it has pulled.
func Suite(t *testing.T, dial func() *cri.Client, cfg SuiteConfig) {
	s := &suite{dial(), cfg}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	if _, err := s.Images.Pull(t.Context(), &runtimeapi.ImageSpec{Image: cfg.Image}, nil, nil); err != nil {
		t.Fatalf("pull %s: %v", cfg.Image, err)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"runtime", s.testRuntime},
		{"runtime config", s.testRuntimeConfig},
		{"sandbox life", s.testSandboxLife},
		{"sandbox name", s.testSandboxName},
		{"sandbox address", s.testSandboxAddress},
		{"sandbox stop", s.testSandboxStop},
		{"sandbox stop with TERM", s.testSandboxStopTERM},
		{"sandbox list", s.testSandboxList},
		{"unknown handler", s.testUnknownHandler},
		{"container life", s.testContainerLife},
		{"container name", s.testContainerName},
		{"container ends", s.testContainerEnds},
		{"container not started", s.testNotStarted},
		{"container list", s.testContainerList},
		{"container resources", s.testResources},
		{"signals", s.testSignals},
		{"stop and remove", s.testStopAndRemove},
		{"record removed", s.testRecordRemoved},
		{"events", s.testEvents},
		{"log", s.testLog},
		{"log without newline", s.testLogTail},
		{"log of a terminal", s.testLogTTY},
		{"log reopened", s.testLogReopened},
		{"surroundings", s.testSurroundings},
		{"volumes", s.testVolumes},
		{"exec", s.testExec},
		{"exec timeout", s.testExecTimeout},
		{"exec refused", s.testExecRefused},
		{"stream", s.testStream},
		{"stream live", s.testStreamLive},
		{"stream refused", s.testStreamRefused},
		{"attach", s.testAttach},
		{"terminal", s.testTerminal},
		{"forward", s.testForward},
		{"shell", s.testShell},
		{"image", s.testImage},
		{"image unknown", s.testImageUnknown},
		{"image in use", s.testImageInUse},
	} {
		t.Run(test.name, test.run)
	}
}

// pod is a sandbox that a test created.
type pod struct {
	*suite
	id     string
	config *runtimeapi.PodSandboxConfig
}

// sandboxConfig returns the config of a plain pod with a unique name.
func (s *suite) sandboxConfig(t *testing.T) *runtimeapi.PodSandboxConfig {
	t.Helper()
	uid := fmt.Sprintf("critest-%d", time.Now().UnixNano())
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "critest", Uid: uid},
		Hostname:     "pod-name",
		LogDirectory: filepath.Join(s.cfg.LogDir, uid),
		Labels:       map[string]string{"uid": uid},
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"a.example", "b.example"}, Options: []string{"ndots:5"}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: s.cfg.CgroupParent,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
}

// run creates a sandbox and removes it after the test.
func (s *suite) run(t *testing.T, config *runtimeapi.PodSandboxConfig) *pod {
	t.Helper()
	id, err := s.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatalf("RunPodSandbox: %v", err)
	}
	// In a cleanup, the context of the test has already ended, so drop uses a new one.
	t.Cleanup(func() { s.drop(t, id) })
	return &pod{s, id, config}
}

func (s *suite) pod(t *testing.T) *pod {
	t.Helper()
	return s.run(t, s.sandboxConfig(t))
}

// container returns the config of a container that runs a command.
func (p *pod) container(name string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: p.cfg.Image, UserSpecifiedImage: p.cfg.Image},
		Command:  command,
		Labels:   map[string]string{"uid": p.config.GetMetadata().GetUid(), "name": name},
		LogPath:  name + "/0.log",
		Linux: &runtimeapi.LinuxContainerConfig{
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
}

// tryCreate creates a container. Like the kubelet, it first creates the directory of the
// container's log, because CRI-O does not create it.
func (p *pod) tryCreate(t *testing.T, config *runtimeapi.ContainerConfig) (string, error) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(p.config.GetLogDirectory(), config.GetLogPath())), 0o755); err != nil {
		t.Fatal(err)
	}
	return p.CreateContainer(t.Context(), p.id, config, p.config)
}

func (p *pod) create(t *testing.T, config *runtimeapi.ContainerConfig) string {
	t.Helper()
	id, err := p.tryCreate(t, config)
	if err != nil {
		t.Fatalf("CreateContainer %s: %v", config.GetMetadata().GetName(), err)
	}
	return id
}

func (p *pod) start(t *testing.T, config *runtimeapi.ContainerConfig) string {
	t.Helper()
	id := p.create(t, config)
	if err := p.StartContainer(t.Context(), id); err != nil {
		t.Fatalf("StartContainer %s: %v", config.GetMetadata().GetName(), err)
	}
	return id
}

// sh starts a container that runs a script.
func (p *pod) sh(t *testing.T, name, script string) string {
	t.Helper()
	return p.start(t, p.container(name, "sh", "-c", script))
}

// lets mounts a directory of the host as /host. It returns a function that creates the file "go" in
// that directory, so that a container whose program waits for the file exits. A command in the
// container could not do this reliably: the command might be killed before it returns.
func lets(t *testing.T, config *runtimeapi.ContainerConfig) (let func()) {
	t.Helper()
	dir := t.TempDir()
	config.Mounts = append(config.Mounts, &runtimeapi.Mount{ContainerPath: "/host", HostPath: dir})
	return func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// up waits until a container has logged "up". By then, the earlier commands of its script, such
// as a trap, have been executed.
func (p *pod) up(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(p.config.GetLogDirectory(), name, "0.log")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), " stdout F up\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("container %s did not write its first line within a minute: log %q, %v", name, data, err)
		}
	}
}

func (s *suite) status(t *testing.T, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	resp, err := s.ContainerStatus(t.Context(), id, false)
	if err != nil {
		t.Fatalf("ContainerStatus: %v", err)
	}
	return resp.GetStatus()
}

// ended waits until a container has exited.
func (s *suite) ended(t *testing.T, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		st := s.status(t, id)
		if st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			return st
		}
		if time.Now().After(deadline) {
			t.Fatalf("container is still in state %s after a minute", st.GetState())
		}
	}
}

// wantCode accepts several codes, because different versions of containerd may return different
// ones.
func wantCode(t *testing.T, err error, want ...codes.Code) {
	t.Helper()
	if got := status.Code(err); !slices.Contains(want, got) {
		t.Errorf("got code %s (%v), want %s", got, err, want)
	}
}

func wantState(t *testing.T, st *runtimeapi.ContainerStatus, want runtimeapi.ContainerState) {
	t.Helper()
	if st.GetState() != want {
		t.Errorf("got state %s, want %s", st.GetState(), want)
	}
}

func wantExit(t *testing.T, st *runtimeapi.ContainerStatus, code int32, reason string) {
	t.Helper()
	if st.GetExitCode() != code || st.GetReason() != reason {
		t.Errorf("got exit code %d, reason %s (%s); want %d, %s", st.GetExitCode(), st.GetReason(), st.GetMessage(), code, reason)
	}
}

func (s *suite) testRuntime(t *testing.T) {
	v, err := s.Version(t.Context())
	if err != nil || v.GetRuntimeName() == "" || v.GetRuntimeVersion() == "" || v.GetRuntimeApiVersion() != "v1" {
		t.Errorf("Version: %v, %v", v, err)
	}
	st, err := s.Status(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	holds := map[string]bool{}
	for _, c := range st.GetStatus().GetConditions() {
		holds[c.GetType()] = c.GetStatus()
	}
	if !holds[runtimeapi.RuntimeReady] || !holds[runtimeapi.NetworkReady] {
		t.Errorf("not ready: %v", st.GetStatus().GetConditions())
	}
	if st.GetInfo()["config"] == "" {
		t.Error("the verbose status does not contain the runtime's configuration")
	}
}
