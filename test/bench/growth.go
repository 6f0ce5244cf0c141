package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of the time that each other pod on the host adds to a command, in µs.
const (
	maxApplyGrowth = 20 // for apply, whose admission counts all pods
	maxOtherGrowth = 1  // for get and delete of one pod: podrun's own CPU time
)

// populations are the numbers of podrun's pods on the host for which commands are measured.
var populations = []int{10, 100, 1_000, 10_000}

// growth contains the durations of commands on one pod, on a host with a number of other pods.
type growth struct {
	Pods   int    `json:"pods"`
	Apply  timing `json:"apply"`
	Get    timing `json:"get"`
	Delete timing `json:"delete"`
}

// timing is the duration of a command and the CPU time of its process. The difference between the
// two is mostly the time of the runtime, which examines every pod for a filtered list.
type timing struct {
	Wall numbers `json:"wallMs"`
	Own  numbers `json:"processorMs"`
}

// measureGrowth measures commands on the fake runtime with an increasing number of pods.
func measureGrowth(ctx context.Context, p *podrun, o options) (out []growth, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &fakeHost{podrun: p, socket: filepath.Join(p.dir, "growth.sock"), root: filepath.Join(p.dir, "growth")}
	fake := exec.Command(self, "-fake", f.socket)
	fake.Stderr = os.Stderr
	fake.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := fake.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fake.Process.Signal(syscall.SIGTERM), fake.Wait()) }()
	if err := until(ctx, reactLimit, slowPoll, "for the fake runtime", func() (bool, error) {
		_, err := os.Stat(f.socket)
		return err == nil, nil
	}); err != nil {
		return nil, err
	}
	if f.client, err = dial(f.socket); err != nil {
		return nil, err
	}
	defer f.client.Close()
	pods := []manifest{pod("seed", o.image, 0, 1), pod("probe", o.image, 0, 1)}
	// The requests of 10,000 pods would exceed the resources of the host.
	for i := range pods {
		pods[i].YAML = strings.ReplaceAll(pods[i].YAML, "requests: {cpu: 1m, memory: 1Mi}", "requests: {}")
	}
	manifests, err := p.write(scenario{Name: "growth", Pods: pods})
	if err != nil {
		return nil, err
	}
	if err := f.seed(ctx, manifests[0]); err != nil {
		return nil, err
	}
	defer func() {
		_, derr := f.run(context.WithoutCancel(ctx), "delete", "seed", "-n", namespace)
		err = errors.Join(err, derr)
	}()
	have := 1
	for _, n := range populations {
		for ; have < n; have++ {
			if err := f.copySeed(ctx, have); err != nil {
				return nil, err
			}
		}
		g := growth{Pods: n}
		for i := range o.rounds(o.pairs + 1) {
			if err := f.once(ctx, manifests[1], &g, i > 0); err != nil {
				return nil, err
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// fakeHost is a root directory on a fake runtime.
type fakeHost struct {
	podrun *podrun
	client *runtimeClient
	socket string
	root   string // path of the root directory

	uid        string // UID of the pod that is copied
	checkpoint []byte
	sandbox    *runtimeapi.PodSandbox
}

func (f *fakeHost) run(ctx context.Context, args ...string) (process, error) {
	return f.podrun.run(ctx, append([]string{args[0], "--container-runtime-endpoint=unix://" + f.socket, "--root-dir=" + f.root, "--max-pods=100000"}, args[1:]...)...)
}

// once runs each command once. If counts is false, the pass is only a warm-up.
func (f *fakeHost) once(ctx context.Context, path string, g *growth, counts bool) error {
	for _, c := range []struct {
		into *timing
		args []string
	}{{&g.Apply, []string{"apply", path}}, {&g.Get, []string{"get", "probe", "-n", namespace}}, {&g.Delete, []string{"delete", "probe", "-n", namespace}}} {
		r, err := f.run(ctx, c.args...)
		if err != nil {
			return err
		}
		if counts {
			c.into.Wall.add(r.wall())
			c.into.Own.add(r.Processor)
		}
	}
	return nil
}

// seed starts the pod that copySeed copies.
func (f *fakeHost) seed(ctx context.Context, path string) error {
	if _, err := f.run(ctx, "apply", path); err != nil {
		return err
	}
	list, err := f.client.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil || len(list.Items) != 1 {
		return fmt.Errorf("%d sandboxes, %w", len(list.GetItems()), err)
	}
	f.sandbox = list.Items[0]
	f.uid = f.sandbox.Metadata.Uid
	f.checkpoint, err = os.ReadFile(filepath.Join(f.root, "pods", f.uid, "pod.yaml"))
	return err
}

// copySeed adds a copy of the seed to the host: its sandbox and its checkpoint.
func (f *fakeHost) copySeed(ctx context.Context, n int) error {
	uid, name := newUID(len(f.uid)), fmt.Sprintf("copy-%d", n)
	metadata := proto.CloneOf(f.sandbox.Metadata)
	metadata.Uid, metadata.Name = uid, name
	labels := maps.Clone(f.sandbox.Labels)
	for key, value := range labels {
		switch value {
		case f.uid:
			labels[key] = uid
		case "seed":
			labels[key] = name
		}
	}
	if _, err := f.client.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: metadata, Labels: labels, Annotations: f.sandbox.Annotations, LogDirectory: filepath.Join(f.root, "logs", uid),
		Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}}); err != nil {
		return err
	}
	dir := filepath.Join(f.root, "pods", uid)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	data := bytes.ReplaceAll(f.checkpoint, []byte(f.uid), []byte(uid))
	data = bytes.ReplaceAll(data, []byte("/seed"), []byte("/"+name))
	data = bytes.ReplaceAll(data, []byte(`"seed"`), []byte(`"`+name+`"`))
	return os.WriteFile(filepath.Join(dir, "pod.yaml"), data, 0o600)
}
