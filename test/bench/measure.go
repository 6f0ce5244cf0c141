package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// starts is the number of measured runs of `podrun version --client`.
const starts = 30

// measureBinary measures the size of the binary and the duration of its start.
func measureBinary(ctx context.Context, p *podrun, n *processNumbers) error {
	info, err := os.Stat(p.path)
	if err != nil {
		return err
	}
	n.BinaryMB = float64(info.Size()) / 1e6
	if n.Stripped, err = stripped(p.path); err != nil {
		return err
	}
	return measureStart(ctx, p, n)
}

// measureMemory returns the peak memory of the podrun process that starts a scenario, in MB. It
// also returns the smallest value that can be measured: for a process, the kernel reports at least
// the memory that the bench had when it started the process. Therefore, measureMemory must run
// before the bench's own memory grows.
func measureMemory(ctx context.Context, p *podrun, o options, s scenario) (peak, floor float64, err error) {
	if floor, err = ownPeak(); err != nil {
		return 0, 0, err
	}
	runs, _, err := p.apply(ctx, s, []string{o.endpoint})
	if err := errors.Join(err, p.deleteAll(ctx)); err != nil {
		return 0, 0, err
	}
	return float64(runs[0].PeakRSS) / 1e6, floor, nil
}

// measureStart alternates version --client with an empty Go program.
func measureStart(ctx context.Context, p *podrun, n *processNumbers) error {
	source, empty := filepath.Join(p.dir, "empty.go"), &podrun{path: filepath.Join(p.dir, "empty")}
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", empty.path, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build an empty program: %w\n%s", err, out)
	}
	for range starts {
		r, err := p.run(ctx, "version", "--client")
		if err != nil {
			return err
		}
		n.Start.add(r.wall())
		if r, err = empty.run(ctx); err != nil {
			return err
		}
		n.Empty.add(r.wall())
	}
	return nil
}

// stripped reports whether a binary has no symbols.
func stripped(path string) (bool, error) {
	f, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return f.Section(".symtab") == nil, nil
}

// ownPeak returns the peak memory of the bench so far, in MB.
func ownPeak() (float64, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n * 1024 / 1e6, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}

// measure runs one scenario: first a warm-up of both clients, then alternating runs, and then
// podrun through the proxy.
func measure(ctx context.Context, p *podrun, client *runtimeClient, o options, s scenario) (*scenarioNumbers, error) {
	n := &scenarioNumbers{scenario: s, Name: s.Name, Calls: map[string]int{}}
	recipes, err := record(ctx, p, o, s)
	if err != nil {
		return nil, err
	}
	if _, err := runBare(ctx, client, p.dir, s, recipes); err != nil {
		return nil, err
	}
	direct := make([]string, len(s.Pods))
	for i := range direct {
		direct[i] = o.endpoint
	}
	for range o.rounds(o.pairs) {
		_, ours, err := p.apply(ctx, s, direct)
		if err := errors.Join(err, p.deleteAll(ctx)); err != nil {
			return nil, err
		}
		theirs, err := runBare(ctx, client, p.dir, s, recipes)
		if err != nil {
			return nil, err
		}
		n.Podrun.add(ours)
		n.Bare.add(theirs)
		n.Ratio = append(n.Ratio, float64(ours)/float64(theirs))
	}
	runs := len(n.Ratio)
	if s.OneProcess {
		runs = 1
	}
	var last trace
	for range o.rounds(runs) {
		traces, err := traced(ctx, p, o, s)
		if err != nil {
			return nil, err
		}
		for _, t := range traces {
			n.addTrace(t)
		}
		last = traces[len(traces)-1]
	}
	if o.trace {
		last.print(os.Stderr)
	}
	return n, nil
}

// record runs a scenario with podrun and returns its requests.
func record(ctx context.Context, p *podrun, o options, s scenario) ([]recipe, error) {
	traces, err := traced(ctx, p, o, s)
	if err != nil {
		return nil, err
	}
	var recipes []recipe
	for _, t := range traces {
		all, err := recipesOf(t.calls, s.Inits)
		if err != nil {
			return nil, err
		}
		recipes = append(recipes, all...)
	}
	return recipes, nil
}

// trace is a run of podrun with its calls.
type trace struct {
	process
	inits int
	calls []call
	exits map[string]exit
}

// traced runs a scenario with podrun. Each podrun process has its own proxy.
func traced(ctx context.Context, p *podrun, o options, s scenario) ([]trace, error) {
	proxies := make([]*proxy, 0, len(s.Pods))
	defer func() {
		for _, x := range proxies {
			x.close()
		}
	}()
	var paths []string
	for i := range s.Pods {
		x, err := newProxy(filepath.Join(p.dir, fmt.Sprintf("%d.sock", i)), o.endpoint, s.Inits > 0)
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, x)
		paths = append(paths, x.path)
	}
	runs, _, err := p.apply(ctx, s, paths)
	var traces []trace
	for i, r := range runs {
		t := trace{process: r, inits: s.Inits}
		t.calls, t.exits = proxies[i].recorded()
		traces = append(traces, t)
	}
	return traces, errors.Join(err, p.deleteAll(ctx, paths...))
}

// runBare runs a scenario with the bare client, and then removes its pods. It returns the
// duration of the start.
func runBare(ctx context.Context, client *runtimeClient, dir string, s scenario, recipes []recipe) (took time.Duration, err error) {
	var pods []*barePod
	defer func() {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		for _, b := range pods {
			err = errors.Join(err, b.remove(fresh, client))
		}
	}()
	for _, r := range recipes {
		b, err := r.prepare(dir)
		if err != nil {
			return 0, err
		}
		pods = append(pods, b)
	}
	begin := time.Now()
	err = atATime(s.Parallel, len(pods), func(i int) error { return pods[i].start(ctx, client) })
	return time.Since(begin), err
}
