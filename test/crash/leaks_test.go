package crash

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// outside checks the host independently of podrun, with which it shares no code.
type outside struct {
	conn    *grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	dir     string // directory of the test's runtime

	mu    sync.Mutex
	known map[string]bool // leaks that have already been counted

	shared  sync.Mutex // guards the result of readResidue, which the lanes share
	residue []string
	// time at which the call of readResidue that returned residue began
	residueAt time.Time
}

func newOutside() (*outside, error) {
	socket := strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://")
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, err
	}
	return &outside{conn: conn, runtime: runtimeapi.NewRuntimeServiceClient(conn), dir: filepath.Dir(socket), known: map[string]bool{}}, nil
}

// sandboxes lists the sandboxes of a pod, and the IDs of all sandboxes of the runtime.
func (o *outside) sandboxes(ctx context.Context, pod string) (of []*runtimeapi.PodSandbox, all []string, err error) {
	resp, err := o.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	for _, s := range resp.GetItems() {
		all = append(all, s.Id)
		if s.Metadata.Name == pod {
			of = append(of, s)
		}
	}
	return of, all, err
}

func (o *outside) containers(ctx context.Context, pod string) ([]*runtimeapi.Container, error) {
	resp, err := o.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.pod.name": pod}}})
	return resp.GetContainers(), err
}

// runs checks that the pod runs in one sandbox, and continues to run.
func (o *outside) runs(ctx context.Context, pod string) error {
	for n := 3; ; n-- {
		if err := o.runsNow(ctx, pod); err != nil || n == 0 {
			return err
		}
		time.Sleep(600 * time.Millisecond)
	}
}

func (o *outside) runsNow(ctx context.Context, pod string) error {
	_, err := o.running(ctx, pod)
	return err
}

// states describes the containers of a pod, for an error.
func (o *outside) states(ctx context.Context, pod string) string {
	// The list is empty if the runtime does not respond.
	containers, _ := o.containers(ctx, pod)
	var out []string
	for _, c := range containers {
		if r, err := o.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.Id}); err == nil {
			s := r.Status
			out = append(out, fmt.Sprintf("%s/%d %s, exit code %d, reason %q, message %q, started %d", s.Metadata.Name, s.Metadata.Attempt, s.State, s.ExitCode, s.Reason, s.Message, s.StartedAt))
		}
	}
	return "; containers: " + strings.Join(out, "; ")
}

// running returns the container app of a pod, if the pod's containers are running.
func (o *outside) running(ctx context.Context, pod string) (*runtimeapi.Container, error) {
	sandboxes, _, err := o.sandboxes(ctx, pod)
	if err != nil {
		return nil, err
	}
	ready := slices.DeleteFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool { return s.State != runtimeapi.PodSandboxState_SANDBOX_READY })
	if len(ready) != 1 {
		return nil, fmt.Errorf("%d sandboxes are ready%s", len(ready), o.states(ctx, pod))
	}
	containers, err := o.containers(ctx, pod)
	if err != nil {
		return nil, err
	}
	running := slices.DeleteFunc(containers, func(c *runtimeapi.Container) bool {
		return c.State != runtimeapi.ContainerState_CONTAINER_RUNNING || c.PodSandboxId != ready[0].Id
	})
	slices.SortFunc(running, func(a, b *runtimeapi.Container) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	if len(running) != 2 || running[0].Metadata.Name != "app" || running[1].Metadata.Name != "next" {
		return nil, fmt.Errorf("%d containers run%s", len(running), o.states(ctx, pod))
	}
	return running[0], nil
}

// leaks lists the leftovers on a host whose pod was deleted. It ignores leftovers that
// disappear within some seconds. For sandboxes, this takes longer, because the list includes
// sandboxes that other lanes are creating.
func (o *outside) leaks(ctx context.Context, h *host) []string {
	left := stays(4*time.Second, func() []string { return o.unknown(o.ofHost(ctx, h)) })
	// Other tests use the same runtime. It lists a sandbox only at the end of RunPodSandbox, which can take more than
	// 12 s on a busy machine; until then, the sandbox's network namespace looks like a leftover.
	left = append(left, stays(2*time.Minute, func() []string { return o.unknown(o.ofSandboxes(ctx, time.Now())) })...)
	o.mu.Lock()
	defer o.mu.Unlock()
	// Another lane may have counted a leak since.
	return slices.DeleteFunc(left, func(l string) bool {
		was := o.known[l]
		o.known[l] = true
		return was
	})
}

// unknown returns the leaks that have not been counted yet.
func (o *outside) unknown(leaks []string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(leaks, func(l string) bool { return o.known[l] })
}

// stays returns the elements that a list contains during the whole time limit.
func stays(limit time.Duration, list func() []string) []string {
	left := list()
	for end := time.Now().Add(limit); len(left) > 0 && time.Now().Before(end); {
		time.Sleep(500 * time.Millisecond)
		now := list()
		left = slices.DeleteFunc(left, func(l string) bool { return !slices.Contains(now, l) })
	}
	return left
}

// secrets returns the directory in memory with the host's Secrets. It returns "" if there is
// none (docs/settings.md, Secrets at rest).
func (h *host) secrets() string {
	sum := sha256.Sum256([]byte(h.dir + "/root"))
	dir := fmt.Sprintf("/run/podrun/secrets/%x", sum[:8])
	if _, err := os.Lstat(dir); err != nil {
		return ""
	}
	return dir
}

// ofHost lists leftovers of the pod of a host.
func (o *outside) ofHost(ctx context.Context, h *host) []string {
	var left []string
	for _, pod := range []string{h.pod, h.replica(1)} {
		sandboxes, _, err := o.sandboxes(ctx, pod)
		if err != nil {
			return []string{err.Error()}
		}
		for _, s := range sandboxes {
			left = append(left, "sandbox "+s.Id+" "+s.State.String())
		}
		containers, err := o.containers(ctx, pod)
		if err != nil {
			return []string{err.Error()}
		}
		for _, c := range containers {
			left = append(left, "container "+c.Id+" "+c.State.String())
		}
	}
	for _, dir := range []string{"root/locks", "root/services", "root/workloads", "root/pods", "root/owners", "root/claims", "root/reservations", "root/image-backoff", "logs", "links"} {
		// The list is empty if the directory was never created.
		entries, _ := os.ReadDir(filepath.Join(h.dir, dir))
		for _, e := range entries {
			// All pods share these locks, and the mark of identity.LocksDir.HoldersMark.
			if dir != "root/locks" || !slices.Contains([]string{"node", "jobs", "services", "service-names", "workloads", "holders"}, e.Name()) {
				left = append(left, dir+"/"+e.Name())
			}
		}
	}
	if dir := h.secrets(); dir != "" {
		left = append(left, dir)
	}
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		groups, _ := filepath.Glob(pattern + h.cgroupRoot())
		left = append(left, groups...)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.dir+"/") {
			left = append(left, "mount "+strings.Fields(line)[4])
		}
	}
	return left
}
