package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/test/hostport"
	ticks "github.com/podrun/podrun/test/patience"
)

// TestSmoke runs a pod on the runtime of hack/runtime without podrun. If another test fails, it
// shows whether the cause is the test runtime or podrun.
func TestSmoke(t *testing.T) {
	registry := os.Getenv("PODRUN_TEST_REGISTRY")
	if registry == "" {
		t.Skip(`no test runtime: eval "$(hack/runtime up)"`)
	}
	p := newPod(t)

	t.Run("pulled image runs and its log is read", func(t *testing.T) {
		image := registry + "/busybox:smoke"
		if err := p.node.pull(p.ctx, []string{image}); err != nil {
			t.Fatal(err)
		}
		id := p.start(t, "say", image, "sh", "-c", "cat /etc/pulled; id -u; exec sleep 600")
		p.waitLog(t, "say", "stdout F smoke\n", "stdout F 0\n")
		p.wantExec(t, id, []string{"cat", "/etc/hostname"}, "smoke\n")
		p.wantExec(t, id, []string{"sh", "-c", "stat -c %a /tmp"}, "1777\n")
	})
	t.Run("an image's user is kept", func(t *testing.T) {
		p.start(t, "nonroot", registry+"/busybox:nonroot", "sh", "-c", "id -u; exec sleep 600")
		p.waitLog(t, "nonroot", "stdout F 65532\n")
		p.start(t, "username", registry+"/busybox:username", "sh", "-c", "id -un; exec sleep 600")
		p.waitLog(t, "username", "stdout F app\n")
	})
	t.Run("a host port leads to the server", func(t *testing.T) {
		id := p.start(t, "httpd", registry+"/httpd:1")
		p.waitLog(t, "httpd", "stdout F listening on :8080\n")
		if got := get(t, fmt.Sprintf("http://127.0.0.1:%d/hook", p.port)); got != "1\n" {
			t.Errorf("first call of /hook answered %q, want 1", got)
		}
		p.waitLog(t, "httpd", "GET /hook")
		// The grace period is longer than the limit of the wait, which ends only if httpd ignores SIGTERM.
		ctx, cancel := ticks.Context(p.ctx, ticks.OnFake)
		defer cancel()
		if _, err := p.node.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 3600}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an image for another machine is refused", func(t *testing.T) {
		err := p.node.pull(p.ctx, []string{registry + "/busybox:otherarch"})
		if err == nil || !strings.Contains(err.Error(), "no match for platform") {
			t.Errorf("got %v, want an error about the platform", err)
		}
	})
}

// pod is a sandbox, with the data that is required to create containers in it.
type pod struct {
	node   node
	ctx    context.Context
	id     string
	config *runtimeapi.PodSandboxConfig
	// a port of the host, which is forwarded to 8080 in the pod
	port int32
}

func newPod(t *testing.T) *pod {
	t.Helper()
	socket := strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://")
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	port, err := hostport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	// This limit applies to all steps together, on a busy host.
	ctx, cancel := ticks.Context(context.Background(), 5*ticks.OnRuntime)
	t.Cleanup(cancel)
	p := &pod{
		node: node{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)},
		ctx:  ctx, port: int32(port),
	}
	p.config = &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "smoke", Namespace: "hack", Uid: fmt.Sprint(time.Now().UnixNano())},
		Hostname:     "smoke",
		LogDirectory: t.TempDir(),
		PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 8080, HostPort: p.port}},
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: os.Getenv("PODRUN_CGROUP_ROOT")},
	}
	resp, err := p.node.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		t.Fatalf("run the sandbox: %v", err)
	}
	p.id = resp.PodSandboxId
	t.Cleanup(func() {
		if _, err := p.node.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
			t.Errorf("stop the sandbox: %v", err)
		}
		if _, err := p.node.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
			t.Errorf("remove the sandbox: %v", err)
		}
	})
	return p
}

// start creates and starts a container and returns its ID.
func (p *pod) start(t *testing.T, name, image string, args ...string) string {
	t.Helper()
	created, err := p.node.runtime.CreateContainer(p.ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name},
			Image:    &runtimeapi.ImageSpec{Image: image},
			Args:     args,
			LogPath:  name + ".log",
			Linux:    &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	if _, err := p.node.runtime.StartContainer(p.ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return created.ContainerId
}

// waitLog returns when the log of a container contains every text, in the CRI's format.
func (p *pod) waitLog(t *testing.T, name string, texts ...string) {
	t.Helper()
	path := filepath.Join(p.config.LogDirectory, name+".log")
	var content []byte
	ctx, cancel := ticks.Context(t.Context(), ticks.OnRuntime)
	defer cancel()
	err := ticks.Until(ctx, func() bool {
		content, _ = os.ReadFile(path)
		return holdsAll(string(content), texts)
	})
	if err != nil {
		t.Fatalf("log of %s: %q, want %q: %v", name, content, texts, err)
	}
}

func holdsAll(content string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(content, text) {
			return false
		}
	}
	return true
}

func (p *pod) wantExec(t *testing.T, id string, command []string, want string) {
	t.Helper()
	got, err := p.node.runtime.ExecSync(p.ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: int64(patience.Seconds())})
	if err != nil || got.ExitCode != 0 || string(got.Stdout) != want {
		t.Errorf("exec %q: %v, %v; want %q", command, got, err, want)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := ticks.Client(t, &http.Transport{DisableKeepAlives: true}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
