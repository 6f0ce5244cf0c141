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

	"github.com/podrun/podrun/test/bench/result"
)

// starts is the number of measured runs of `podrun version --client`.
const starts = 30

// measureBinary measures the size of the binary and the duration of its start, in alternation with an
// empty Go program.
func measureBinary(ctx context.Context, p *podrun, o options) ([]result.Row, error) {
	var sizes [2]numbers
	for i, each := range p.versions() {
		info, err := os.Stat(each.path)
		if err != nil {
			return nil, err
		}
		plain, err := stripped(each.path)
		if err != nil {
			return nil, err
		}
		if !plain && o.results != "" {
			return nil, fmt.Errorf("%s has symbols: 'make build' builds it without symbols", each.name)
		}
		sizes[i] = numbers{float64(info.Size()) / 1e6}
	}
	source, empty := filepath.Join(p.dir, "empty.go"), &podrun{name: "empty program", path: filepath.Join(p.dir, "empty")}
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", empty.path, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build an empty program: %w\n%s", err, out)
	}
	all, err := o.interleave(ctx, starts, p.contenders(func(p *podrun) contender { return p.timed(ctx, "version", "--client") }, empty.timed(ctx))...)
	if err != nil {
		return nil, err
	}
	return []result.Row{
		result.NewRow("start of version --client", "ms", all[0].took, ofOld(all, func(s samples) numbers { return s.took }), programs(all)...),
		result.NewRow("start of an empty program", "ms", all[1].took, nil),
		result.NewRow("binary", "MB", sizes[0], sizes[1]),
	}, nil
}

// measureMemory measures the peak memory of the podrun process that starts a scenario. The kernel
// reports, for a process, at least the memory that the bench had when it started the process.
// Therefore, measureMemory must run before the bench's own memory grows: a value that is not larger is
// an error.
func measureMemory(ctx context.Context, p *podrun, o options, s scenario) ([]result.Row, error) {
	var peaks [2]numbers
	for i, each := range p.versions() {
		floor, err := ownPeak()
		if err != nil {
			return nil, err
		}
		runs, _, err := each.apply(ctx, s, []string{o.endpoint})
		if err := errors.Join(err, each.deleteAll(ctx)); err != nil {
			return nil, err
		}
		peak := float64(runs[0].PeakRSS) / 1e6
		if peak <= floor {
			return nil, fmt.Errorf("the peak memory of the bench, %.1f MB, hides that of podrun", floor)
		}
		peaks[i] = numbers{peak}
	}
	return []result.Row{result.NewRow("peak memory, "+s.Name, "MB", peaks[0], peaks[1])}, nil
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

// measure runs one scenario: alternating runs of podrun and the bare client, and then podrun through
// the proxy.
func measure(ctx context.Context, p *podrun, client *runtimeClient, o options, s scenario) ([]result.Row, error) {
	if s.Full {
		o.limit = noLimit
	}
	recipes, err := record(ctx, p, o, s)
	if err != nil {
		return nil, err
	}
	all, err := o.interleave(ctx, o.pairs, p.contenders(func(p *podrun) contender { return p.starter(ctx, s, o.endpoint) }, bareStarter(ctx, client, p.dir, s, recipes))...)
	if err != nil {
		return nil, err
	}
	rows := []result.Row{ratioRow("wall, "+s.Name, all)}
	runs := len(all[0].took)
	if s.OneProcess {
		runs = 1 // the documentation does not show podrun's own time for many pods
	}
	versions := p.versions()
	own := make([]ownNumbers, 2)
	var last trace
	for round := range o.rounds(runs) {
		for _, i := range order(round, len(versions)) {
			traces, err := traced(ctx, versions[i], o, s)
			if err != nil {
				return nil, err
			}
			own[i].add(traces)
			last = traces[len(traces)-1]
		}
	}
	if o.trace {
		last.print(os.Stderr)
	}
	return append(rows, ownRows(s.Name, own[0], own[1])...), nil
}

// ownNumbers are podrun's own times in the runs through the proxy, in ms. There is one number for each
// round, the median of its processes or of its init containers: these are not independent, so more
// numbers would make the intervals too short.
type ownNumbers struct {
	overhead  numbers
	processor numbers // CPU time; it depends less on the load of the machine
	// reaction is the time from the runtime's report of an exit to the next StartContainer.
	// reactionToExit is the time from the exit itself.
	reaction, reactionToExit numbers
}

// add adds a round.
func (n *ownNumbers) add(traces []trace) {
	var round ownNumbers
	for _, t := range traces {
		round.overhead.add(t.overhead())
		round.processor.add(t.Processor)
		for _, d := range t.reactions(false) {
			round.reaction.add(d)
		}
		for _, d := range t.reactions(true) {
			round.reactionToExit.add(d)
		}
	}
	n.overhead = append(n.overhead, round.overhead.median())
	n.processor = append(n.processor, round.processor.median())
	if len(round.reaction) > 0 {
		n.reaction = append(n.reaction, round.reaction.median())
		n.reactionToExit = append(n.reactionToExit, round.reactionToExit.median())
	}
}

func ownRows(name string, n, old ownNumbers) []result.Row {
	rows := []result.Row{
		result.NewRow("own overhead, "+name, "ms", n.overhead, old.overhead),
		result.NewRow("CPU time, "+name, "ms", n.processor, old.processor),
	}
	if len(n.reaction) > 0 {
		rows = append(rows,
			result.NewRow("next init container, after the runtime reports the exit", "ms", n.reaction, old.reaction),
			result.NewRow("next init container, after the exit", "ms", n.reactionToExit, old.reactionToExit))
	}
	return rows
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

// bareStarter returns a contender that starts the pods of a scenario with the bare client.
func bareStarter(ctx context.Context, client *runtimeClient, dir string, s scenario, recipes []recipe) contender {
	var pods []*barePod
	return contender{
		name:   "bare client",
		before: func() (err error) { pods, err = prepareAll(recipes, dir); return err },
		run: func() (time.Duration, error) {
			begin := time.Now()
			err := atATime(s.Parallel, len(pods), func(i int) error { return pods[i].start(ctx, client) })
			return time.Since(begin), err
		},
		after: func() error { return removeAll(ctx, client, pods) },
	}
}

// prepareAll prepares a pod for each recipe.
func prepareAll(recipes []recipe, dir string) ([]*barePod, error) {
	var pods []*barePod
	for _, r := range recipes {
		b, err := r.prepare(dir)
		if err != nil {
			return nil, err
		}
		pods = append(pods, b)
	}
	return pods, nil
}

// removeAll removes the pods even if the bench was interrupted.
func removeAll(ctx context.Context, client *runtimeClient, pods []*barePod) error {
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, b := range pods {
		errs = append(errs, b.remove(fresh, client))
	}
	return errors.Join(errs...)
}
