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
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/test/bench/result"
)

// arguments returns the arguments of one of result.GrowthCommands. The pod is in the file at path.
func arguments(command, path string) []string {
	if command == "apply" {
		return []string{command, path}
	}
	verb, _, _ := strings.Cut(command, " ")
	return []string{verb, "probe", "-n", namespace}
}

// timing contains the measurements of a command, and the CPU times of its process in ms. The difference
// between its duration and the CPU time is mostly the time of the runtime, which examines every pod for
// a filtered list.
type timing struct {
	samples
	own numbers
}

// growth contains, for a number of other pods, the timings of each version of podrun and each command.
type growth struct {
	pods    int
	timings [2][]timing
}

// measureGrowth measures commands on the fake runtime with an increasing number of pods.
func measureGrowth(ctx context.Context, p *podrun, o options) (_ []result.Row, err error) {
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
		_, derr := f.run(context.WithoutCancel(ctx), f.podrun, "delete", "seed", "-n", namespace)
		err = errors.Join(err, derr)
	}()
	var all []growth
	have := 1
	for _, n := range result.Populations {
		for ; have < n; have++ {
			if err := f.copySeed(ctx, have); err != nil {
				return nil, err
			}
		}
		g := growth{pods: n, timings: [2][]timing{make([]timing, len(result.GrowthCommands)), make([]timing, len(result.GrowthCommands))}}
		versions := p.versions()
		for _, version := range versions {
			warmUp := make([]timing, len(result.GrowthCommands))
			if err := f.once(ctx, version, manifests[1], warmUp); err != nil {
				return nil, err
			}
		}
		for round := range o.rounds(o.pairs) {
			for _, i := range order(round, len(versions)) {
				if err := f.once(ctx, versions[i], manifests[1], g.timings[i]); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, g)
	}
	return growthRows(all), nil
}

// growthRows returns the rows of each number of other pods, and the time that each other pod adds, in
// µs.
func growthRows(all []growth) []result.Row {
	var rows []result.Row
	for _, g := range all {
		for k, c := range result.GrowthCommands {
			name := result.GrowthName(c, g.pods)
			now, old := g.timings[0][k], g.timings[1][k]
			programs := []result.Program{now.program()}
			if len(old.took) > 0 {
				programs = append(programs, old.program())
			}
			rows = append(rows, result.NewRow(name, "ms", now.took, old.took, programs...),
				result.NewRow(name+", CPU time", "ms", now.own, old.own))
		}
	}
	few, many := all[0], all[len(all)-1]
	each := func(name string, k int, of func(timing) numbers) {
		var added [2]numbers
		for i := range added {
			if a, b := of(few.timings[i][k]), of(many.timings[i][k]); len(a) > 0 {
				added[i] = numbers{max(0, 1000*(b.median()-a.median())/float64(many.pods-few.pods))}
			}
		}
		rows = append(rows, result.NewRow(name, "µs", added[0], added[1]))
	}
	for k, c := range result.GrowthCommands {
		each(c+", for each other pod", k, func(t timing) numbers { return t.took })
		each(c+", for each other pod, CPU time", k, func(t timing) numbers { return t.own })
	}
	return rows
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

func (f *fakeHost) run(ctx context.Context, p *podrun, args ...string) (process, error) {
	return p.run(ctx, append([]string{args[0], "--container-runtime-endpoint=unix://" + f.socket, "--root-dir=" + f.root, "--max-pods=100000"}, args[1:]...)...)
}

// once runs each command once, and adds the measurements to those of the command.
func (f *fakeHost) once(ctx context.Context, p *podrun, path string, into []timing) error {
	for k, command := range result.GrowthCommands {
		c := contender{name: p.name, run: func() (time.Duration, error) {
			r, err := f.run(ctx, p, arguments(command, path)...)
			into[k].own.add(r.Processor)
			return r.wall(), err
		}}
		into[k].name = p.name
		if err := c.once(&into[k].samples); err != nil {
			return err
		}
	}
	return nil
}

// seed starts the pod that copySeed copies.
func (f *fakeHost) seed(ctx context.Context, path string) error {
	if _, err := f.run(ctx, f.podrun, "apply", path); err != nil {
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
