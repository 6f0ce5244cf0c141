package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/bench/result"
)

// densitySubnet has addresses for all pods; the default subnet has 253.
const densitySubnet = "10.214.128.0/21"

// reactionRounds is the number of pods whose file changes, and of those whose container is killed.
const reactionRounds = 5

// benchDensity measures podrun serve with many pods with probes on the embedded runtime (make bench-density), and the
// least of them with a kubelet, too, if o.kubelet names one.
func benchDensity(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "podrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"CONTAINER_RUNTIME_ENDPOINT", "PODRUN_CONTAINER_RUNTIME_ENDPOINT"} {
		os.Unsetenv(name)
	}
	p := &podrun{name: "podrun", dir: dir, env: []string{"PODRUN_RUNTIME=embedded", "PODRUN_CONFIG=", "PODRUN_EVICTION_HARD="}}
	if p.path, err = copyBinary(o.podrun, dir); err != nil {
		return err
	}
	var all []section
	for _, n := range result.Densities {
		all = append(all, section{fmt.Sprintf("density of %d", n), false, func(ctx context.Context) ([]result.Row, error) { return measureDensity(ctx, p, o, n) }})
	}
	return run(ctx, all, o, nil)
}

// crowd is a podrun serve with many pods on its own embedded runtime, or a kubelet on the same runtime.
type crowd struct {
	*served
	client *runtimeClient
	image  string
	port   int    // of the server that the probes connect to
	suffix string // which a kubelet appends to the names of the pods in files
}

// measureDensity starts serve with the files of n pods, as at boot, and measures the start, serve while it is idle, and
// its reactions; then the same with a kubelet, if there is one.
func measureDensity(ctx context.Context, p *podrun, o options, n int) (_ []result.Row, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	// Serve returns when the server is closed.
	go server.Serve(listener)
	defer func() { err = errors.Join(err, server.Close()) }()

	c := &crowd{served: &served{podrun: p, dir: filepath.Join(p.dir, fmt.Sprint(n))}, image: o.image, port: listener.Addr().(*net.TCPAddr).Port}
	defer func() { err = errors.Join(err, c.down(ctx)) }()
	boot, err := c.boot(ctx, n)
	var rows []result.Row
	if err == nil {
		rows, err = c.measure(ctx, o, n, boot, result.DensityName)
	}
	if c.cmd != nil {
		err = errors.Join(err, c.remove(ctx))
	}
	if err != nil || o.kubelet == "" || n != result.Densities[0] {
		return rows, err
	}
	beside, err := c.measureKubelet(ctx, o, n)
	return append(rows, beside...), err
}

// measure returns the rows of a started crowd.
func (c *crowd) measure(ctx context.Context, o options, n int, boot time.Duration, named func(string, int) string) ([]result.Row, error) {
	idle, err := c.watchIdle(ctx, o.idle)
	if err != nil {
		return nil, err
	}
	changed, err := c.reactions(ctx, 0, c.change)
	if err != nil {
		return nil, fmt.Errorf("changed file: %w\n%s", err, c.tail())
	}
	crashed, err := c.reactions(ctx, reactionRounds, c.kill)
	if err != nil {
		return nil, fmt.Errorf("crash: %w\n%s", err, c.tail())
	}
	row := func(name, unit string, values ...float64) result.Row {
		return result.NewRow(named(name, n), unit, values, nil)
	}
	return []result.Row{
		row(result.DensityBoot, "ms", milliseconds(boot)/float64(n)),
		row(result.DensityCPU, "s", idle.processor/100*60),
		row(result.DensityMemory, "KB", 1000*idle.memory.median()/float64(n)),
		row(result.DensityChange, "ms", changed...),
		row(result.DensityCrash, "ms", crashed...),
	}, nil
}

// measureKubelet measures a kubelet with the same pods on the same runtime.
func (c *crowd) measureKubelet(ctx context.Context, o options, n int) (_ []result.Row, err error) {
	restore, err := saveState()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	dir := filepath.Join(c.dir, "beside")
	k := &standaloneKubelet{socket: embedded.ReadLayout(c.root()).Socket(), dir: dir, group: "/" + filepath.Base(c.podrun.dir), ended: make(chan struct{})}
	other := &crowd{served: &served{podrun: c.podrun, dir: dir, manifests: filepath.Join(dir, "manifests"), ended: k.ended},
		client: c.client, image: c.image, port: c.port, suffix: "-" + kubeletNode}
	if err := other.putAll(n); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := k.start(o.kubelet); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.remove(ctx)) }()
	other.cmd, other.log = k.cmd, k.log
	if err := other.await(ctx, c.client, n); err != nil {
		return nil, err
	}
	return other.measure(ctx, o, n, time.Since(begin), result.KubeletDensityName)
}

// boot starts serve with the files of n pods, and returns the time from the response of its runtime until all
// containers run: starting the runtime takes as long for one pod as for many.
func (c *crowd) boot(ctx context.Context, n int) (time.Duration, error) {
	c.manifests = filepath.Join(c.dir, "manifests")
	if err := c.putAll(n); err != nil {
		return 0, err
	}
	if err := c.start("", "--pod-cidr="+densitySubnet); err != nil {
		return 0, err
	}
	socket := embedded.ReadLayout(c.root()).Socket()
	err := until(ctx, startLimit, slowPoll, "for the runtime", func() (bool, error) {
		if c.client == nil {
			if _, err := os.Stat(socket); err != nil {
				return false, c.alive()
			}
			var err error
			if c.client, err = dial(socket); err != nil {
				return false, err
			}
		}
		_, err := c.client.runtime.Version(ctx, &runtimeapi.VersionRequest{})
		return err == nil, c.alive()
	})
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = until(ctx, 2*startLimit, slowPoll, fmt.Sprintf("that %d containers run", n), func() (bool, error) {
		running, err := c.running(ctx, c.client)
		return running == n, err
	})
	return time.Since(begin), err
}

// putAll writes the files of n pods.
func (c *crowd) putAll(n int) error {
	if err := os.MkdirAll(c.manifests, 0o755); err != nil {
		return err
	}
	for i := range n {
		if _, err := c.put(c.pod(i, "first")); err != nil {
			return err
		}
	}
	return nil
}

// pod returns the definition of a pod. Another value replaces the pod.
func (c *crowd) pod(i int, value string) manifest {
	m := probed(fmt.Sprintf("crowd-%d", i), c.image, c.port)
	m.YAML += fmt.Sprintf("    env: [{name: VALUE, value: %s}]\n", value)
	return m
}

// reactions measures, for some pods, the time from an event until another container of the pod has started.
func (c *crowd) reactions(ctx context.Context, first int, cause func(ctx context.Context, i int, running *runtimeapi.ContainerStatus, pid int) (time.Time, error)) (numbers, error) {
	var out numbers
	for i := first; i < first+reactionRounds; i++ {
		before, pid, err := c.container(ctx, i)
		if err != nil {
			return nil, err
		}
		if before == nil {
			return nil, fmt.Errorf("no container of crowd-%d runs", i)
		}
		at, err := cause(ctx, i, before, pid)
		if err != nil {
			return nil, err
		}
		err = until(ctx, reactLimit, slowPoll, fmt.Sprintf("for another container of crowd-%d", i), func() (bool, error) {
			now, _, err := c.container(ctx, i)
			if err != nil || now == nil || now.Id == before.Id {
				return false, err
			}
			out.add(time.Unix(0, now.StartedAt).Sub(at))
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// change replaces the file of a pod.
func (c *crowd) change(_ context.Context, i int, _ *runtimeapi.ContainerStatus, _ int) (time.Time, error) {
	return c.put(c.pod(i, "second"))
}

// kill kills the process of a container.
func (c *crowd) kill(_ context.Context, _ int, _ *runtimeapi.ContainerStatus, pid int) (time.Time, error) {
	now := time.Now()
	return now, syscall.Kill(pid, syscall.SIGKILL)
}

// container returns the running container of a pod and its process, or nil if none is running.
func (c *crowd) container(ctx context.Context, i int) (*runtimeapi.ContainerStatus, int, error) {
	list, err := c.client.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.name": fmt.Sprintf("crowd-%d%s", i, c.suffix)}}})
	if err != nil || len(list.Containers) == 0 {
		return nil, 0, err
	}
	// During a replacement, the old and the new container may both run for a moment.
	newest := slices.MaxFunc(list.Containers, func(a, b *runtimeapi.Container) int { return int(a.CreatedAt - b.CreatedAt) })
	status, err := c.client.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: newest.Id, Verbose: true})
	if err != nil {
		return nil, 0, err
	}
	var info struct{ Pid int }
	if err := json.Unmarshal([]byte(status.Info["info"]), &info); err != nil {
		return nil, 0, err
	}
	return status.Status, info.Pid, nil
}

// down stops the runtime of serve.
func (c *crowd) down(ctx context.Context) error {
	if c.cmd == nil {
		return nil
	}
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if c.client != nil {
		c.client.Close()
	}
	// On a busy machine, containerd may not end within the limit.
	var failed error
	for range 3 {
		if _, failed = c.podrun.run(fresh, "--root-dir="+c.root(), "runtime", "down", "--force"); failed == nil {
			break
		}
	}
	return failed
}
