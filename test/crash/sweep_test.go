package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podrun/podrun/test/steps"
)

// commands are the commands that the sweep kills.
var commands = []string{"apply", "run", "delete", "restart", "replace", "stop", "start", "serve", "update", "serve-update",
	"apply" + inMemory, "replace" + inMemory, "delete" + inMemory, "update" + legacy}

// inMemory marks commands on a pod that has a Secret, with --secrets=memory. The sweep kills
// them only at steps that access files.
const inMemory = "-memory"

// legacy marks commands on a pod whose state is in the files of schema version 2. The sweep
// kills them only at steps that replace these files.
const legacy = "-legacy"

// cell is one kill and the command that follows: apply, delete, restart, serve, or serve after
// the pod's file was removed (gone).
type cell struct {
	command, point, then string
	// time of the kill, used in place of a step
	after time.Duration
}

func (c cell) name() string {
	if c.after > 0 {
		return c.command + "/" + c.after.String() + "/" + c.then
	}
	return c.command + "/" + c.point + "/" + c.then
}

// thens returns the commands that may follow a killed command.
func thens(command string) []string {
	if command == "serve" {
		return []string{"apply", "delete", "serve", "gone"}
	}
	if _, _, ok := scales(command); ok {
		return []string{"scale", "delete", "serve"}
	}
	switch command {
	case "serve" + withService:
		return []string{"serve", "gone"}
	// restart has no manifest
	case "restart":
		return []string{"apply", "delete", "restart"}
	case "serve-update", rollback:
		return []string{"serve"}
	}
	return []string{"apply", "delete"}
}

// verdict is the result of a cell.
type verdict struct {
	cell
	killed  bool
	failed  string   // why the first command after the kill failed
	lied    string   // the problem, if the command exited with 0 nevertheless
	leaks   []string // leftovers after a successful delete
	lost    int      // number of shims, tasks and task states that containerd lost
	trouble string   // a problem of the sweep itself
}

// onRuntime connects to the runtime of the tests, and creates a directory for the hosts. If there
// is no runtime, it skips the test.
func onRuntime(t *testing.T) (*outside, string) {
	t.Helper()
	if program == "" || os.Getenv("PODRUN_TEST_IMAGE") == "" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set")
	}
	o, err := newOutside()
	if err != nil {
		t.Fatal(err)
	}
	return o, t.TempDir()
}

// TestCrashSweep kills each command at a sample of its steps. The sample is one step in
// PODRUN_CRASH_EVERY (default 200; with 1, all steps). PODRUN_CRASH_SEED selects it, and
// PODRUN_CRASH_OFFSET (default 0) selects a different sample of the same seed, so that several runs
// cover all steps. PODRUN_CRASH_ONLY is a regular expression for the names of the cells.
// PODRUN_CRASH_ROUNDS is the number of times that each cell is tried.
func TestCrashSweep(t *testing.T) { sweepCommands(t, "crash sweep", 200, commands...) }

// TestCrashSweepOfServices does the same with pods that have a Service, and with scale. The sample is one step in
// 20.
func TestCrashSweepOfServices(t *testing.T) {
	sweepCommands(t, "crash sweep of Services", 20, serviceCommands...)
}

func sweepCommands(t *testing.T, name string, sample int, commands ...string) {
	o, dir := onRuntime(t)
	cells, err := plan(o, dir, commands...)
	if err != nil {
		t.Fatal(err)
	}
	// This call ignores leftovers from before the test.
	o.leaks(t.Context(), newHost(dir, 0))
	every := number("PODRUN_CRASH_EVERY", sample)
	// The default seed is constant, so that the gate always tries the same cells.
	seed := uint64(number("PODRUN_CRASH_SEED", 1))
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	only, err := regexp.Compile(os.Getenv("PODRUN_CRASH_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	var chosen []cell
	for i, c := range cells {
		if i%every == number("PODRUN_CRASH_OFFSET", 0) && only.MatchString(c.name()) {
			chosen = append(chosen, c)
		}
	}
	t.Logf("PODRUN_CRASH_SEED=%d", seed)
	report(name, commands, len(cells), sweep(t, o, dir, 100, slices.Repeat(chosen, number("PODRUN_CRASH_ROUNDS", 1))))
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// plan lists all cells of commands. To determine the steps of a command, it runs the command
// once.
func plan(o *outside, dir string, commands ...string) ([]cell, error) {
	found := make([][]cell, len(commands))
	var all errgroup.Group
	all.SetLimit(lanes)
	for i, command := range commands {
		all.Go(func() (err error) {
			found[i], err = cellsOf(o, newHost(dir, i+1), command)
			return err
		})
	}
	err := all.Wait()
	return slices.Concat(found...), err
}

// cellsOf returns the cells of a command: it runs the command once, and reads the points that it passes.
func cellsOf(o *outside, h *host, command string) ([]cell, error) {
	var out []cell
	args, before, err := h.command(command)
	if err == nil {
		err = h.prepare(before)
	}
	if err != nil {
		return nil, err
	}
	file := filepath.Join(h.dir, "trace")
	if r := o.do(h, command, []string{"PODRUN_FAULTPOINT_TRACE=" + file}, args...); r.code != 0 {
		return nil, fmt.Errorf("%s: code %d: %s", command, r.code, r.out)
	}
	trace, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if r := h.podrun(nil, h.deletion()...); r.code != 0 {
		return nil, fmt.Errorf("delete: code %d: %s", r.code, r.out)
	}
	for _, p := range steps.Of(strings.ReplaceAll(string(trace), h.pod, anyPod)) {
		if h.memory && !strings.HasPrefix(p, "file/") && !strings.HasPrefix(p, "secrets/") && !strings.HasPrefix(p, "remove/") {
			continue
		}
		if h.legacy && !strings.HasPrefix(p, "file/status.json/") && !strings.HasPrefix(p, "state/") {
			continue
		}
		if !h.tries(p) {
			continue
		}
		for _, then := range thens(command) {
			out = append(out, cell{command: command, point: p, then: then})
		}
	}
	return out, nil
}

// patience is the time limit of a cell.
const patience = 5 * time.Minute

// lanes is the number of cells that run in parallel. Cells spend half of their time waiting.
const lanes = 6

// sweep runs the cells in a few lanes, and returns their results. Its hosts are numbered,
// beginning with first.
func sweep(t *testing.T, o *outside, dir string, first int, cells []cell) []verdict {
	var mu sync.Mutex
	next := 0
	out := make([]verdict, len(cells))
	var all sync.WaitGroup
	for range number("PODRUN_CRASH_LANES", lanes) {
		all.Go(func() {
			for end, bounded := t.Deadline(); t.Context().Err() == nil && (!bounded || time.Until(end) > patience); {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(cells) {
					return
				}
				out[i] = try(t.Context(), o, newHost(dir, first+i), cells[i])
				out[i].log(t)
				if (i+1)%50 == 0 {
					t.Logf("%d of %d cells", i+1, len(cells))
				}
			}
		})
	}
	all.Wait()
	// Cells that were not tried because the time limit had expired are dropped.
	return slices.DeleteFunc(out, func(v verdict) bool { return v.command == "" })
}

// try runs one cell.
func try(ctx context.Context, o *outside, h *host, c cell) verdict {
	v := verdict{cell: c}
	args, before, err := h.command(c.command)
	if err == nil {
		err = h.prepare(before)
	}
	if err != nil {
		v.trouble = err.Error()
		return v
	}
	h.killAfter = c.after
	r := o.do(h, c.command, []string{"PODRUN_FAULTPOINT=" + strings.ReplaceAll(c.point, anyPod, h.pod)}, args...)
	h.killAfter = 0
	v.killed = r.killed
	if !r.killed && r.code != 0 {
		v.trouble = fmt.Sprintf("not killed: code %d: %s", r.code, last(r.out, 3))
	}
	o.andThen(ctx, h, &v)
	return v
}

// andThen runs the command after the kill, and checks its result. After a delete, it also checks
// for leftovers.
func (o *outside) andThen(ctx context.Context, h *host, v *verdict) {
	if r := o.first(h, v.then); r.code != 0 {
		v.failed += fmt.Sprintf("code %d after %v: %s", r.code, r.took, last(r.out, 3))
		// This cleans up, so that the next cells have a clean host.
		for range 5 {
			if r := o.first(h, v.then); r.code == 0 {
				break
			}
		}
	}
	serves := v.then == "serve" || v.then == "gone"
	if v.then == "apply" || v.then == "restart" || v.then == "scale" || serves && h.requested() {
		if err := o.runsAsRequested(ctx, h); err != nil {
			v.lied += err.Error()
		}
		if r := h.podrun(nil, h.deletion()...); r.code != 0 {
			v.lied += " the delete that follows: " + last(r.out, 3)
		}
	}
	if serves && (!h.requested() || h.scaled > 0) {
		// serve collects garbage every 5 minutes, also after it has deleted a pod.
		if r := h.podrun(nil, "gc"); r.code != 0 {
			v.lied += " gc: " + last(r.out, 3)
		}
	}
	lost := 0
	v.leaks, lost = splitLost(o.leaks(ctx, h))
	v.lost += lost
	if len(v.leaks) == 0 {
		os.RemoveAll(h.dir)
	} else {
		h.podrun(nil, h.deletion()...)
	}
}

// first runs the first command after a kill.
func (o *outside) first(h *host, then string) result {
	switch then {
	case "apply":
		return h.podrun(nil, "apply", h.applied(), "--timeout", recovery.String())
	case "restart":
		return h.podrun(nil, "restart", h.pod, "--timeout", recovery.String())
	case "scale":
		r := h.podrun(nil, append(h.scale(h.scaled), "--timeout", recovery.String())...)
		h.hasScaled = r.code == 0
		return r
	case "serve":
		return o.serveAgain(h)
	case "gone":
		// The file may have already been removed.
		os.Remove(h.source())
		return o.serveAgain(h)
	default:
		return h.podrun(nil, append(h.deletion(), "--timeout", recovery.String())...)
	}
}

func (v verdict) log(t *testing.T) {
	for what, text := range map[string]string{"failed": v.failed, "lied": v.lied, "left": strings.Join(v.leaks, "\n\t"), "trouble": v.trouble} {
		if text != "" {
			t.Errorf("%s: %s: %s", v.name(), what, text)
			// The result is printed immediately, because a sweep takes a long time.
			fmt.Printf("%s: %s: %s\n", v.name(), what, last(text, 40))
		}
	}
}

// report prints the counts that docs/reliability.md quotes.
func report(name string, commands []string, points int, all []verdict) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d cells of %d\n%-24s %6s %6s %8s %6s %6s %6s\n", name, len(all), points, "killed -> then", "cells", "kills", "failures", "lies", "leaks", "lost")
	line := func(name string, of func(verdict) bool) {
		var cells, kills, failures, lies, leaks, lost int
		for _, v := range slices.DeleteFunc(slices.Clone(all), func(v verdict) bool { return !of(v) }) {
			cells++
			lost += v.lost
			for n, is := range map[*int]bool{&kills: v.killed, &failures: v.failed != "", &lies: v.lied != "", &leaks: len(v.leaks) > 0} {
				if is {
					*n++
				}
			}
		}
		fmt.Fprintf(&b, "%-24s %6d %6d %8d %6d %6d %6d\n", name, cells, kills, failures, lies, leaks, lost)
	}
	for _, c := range commands {
		for _, then := range thens(c) {
			line(c+" -> "+then, func(v verdict) bool { return v.command == c && v.then == then })
		}
	}
	line("all", func(verdict) bool { return true })
	fmt.Fprintf(&b, "%d mounted files and directories compared\n", comparedFiles.Load())
	fmt.Println(b.String())
}
