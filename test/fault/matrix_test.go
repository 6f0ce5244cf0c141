package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/ring"
)

// mishap is one way in which calls fail.
type mishap struct {
	name  string
	fault critest.Fault
	// --timeout of the command if every call fails or gets no response
	limit time.Duration
	// silent means that the caller gets no response, so that only a limit ends the call.
	silent bool
}

// slowLimit is the --timeout of a command that should exit long before its timeout.
const slowLimit = 3 * time.Minute

var mishaps = []mishap{
	{"error before the effect", critest.Fault{When: critest.Before}, 4 * time.Second, false},
	{"error after the effect", critest.Fault{When: critest.After}, 4 * time.Second, false},
	{"answer lost", critest.Fault{When: critest.EffectThenHang}, 2 * time.Second, true},
	{"hang", critest.Fault{When: critest.Hang}, 2 * time.Second, true},
	{"slow", critest.Fault{When: critest.Slow, Delay: 400 * time.Millisecond}, slowLimit, false},
	{"connection cut", critest.Fault{When: critest.Cut}, 4 * time.Second, false},
	{"stale list", critest.Fault{When: critest.Stale}, 4 * time.Second, false},
}

// hits reports whether the mishap can be applied to a method. EffectThenHang does not apply to
// streams and GetContainerEvents. exec and attach may run forever, and a runtime may send no
// events, so a hang is indistinguishable from normal operation.
func (m mishap) hits(method string) bool {
	if m.fault.When == critest.EffectThenHang && (strings.HasSuffix(method, "Stream") || method == "GetContainerEvents") {
		return false
	}
	return m.fault.When != critest.Stale || method == "ListPodSandbox" || method == "ListContainers"
}

// cell is one command with failing calls of one method, and the next command.
type cell struct {
	profile
	command
	method string
	mishap mishap
	// true if every call of the method fails, false if only the first one does
	all  bool
	next string // the next command: apply or delete
}

func (c cell) String() string {
	which := "first"
	if c.all {
		which = "each"
	}
	return strings.Join([]string{c.profile.name, c.command.name, which + " " + c.method, c.mishap.name, c.next}, " | ")
}

// limit returns the command's --timeout. If a call fails only once and gets a response, the command
// exits long before the timeout, so limit returns a long one: a short timeout would expire only
// because the machine is overloaded.
func (c cell) limit() time.Duration {
	if !c.all && !c.mishap.silent {
		return slowLimit
	}
	return c.mishap.limit
}

// outage is the fault of a cell while it affects calls.
type outage struct {
	rt     *critest.Runtime
	method string // "" if no call fails
	fault  critest.Fault
	lasts  time.Duration // 0: until end is called

	mu          sync.Mutex
	clear       func()
	begun, over bool
}

// begin begins the fault, unless it has begun or ended already.
func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun || o.over {
		return
	}
	o.begun = true
	o.rt.ForgetCalls()
	o.clear = o.rt.Fault(o.method, o.fault)
	if o.lasts > 0 {
		time.AfterFunc(o.lasts, o.end)
	}
}

// end ends the fault.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over = true; o.clear != nil {
		o.clear()
	}
}

// hasBegun returns an error if the fault has not begun.
func (o *outage) hasBegun() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun {
		return errors.New("the fault has not begun")
	}
	return nil
}

// calls returns the methods that podrun has called since the fault began, in the order of their first calls.
func (o *outage) calls() (methods []string) {
	if o.hasBegun() != nil {
		return nil
	}
	for _, call := range o.rt.Calls() {
		if !slices.Contains(methods, call.Method) {
			methods = append(methods, call.Method)
		}
	}
	return methods
}

// methodsOf lists the methods that a command calls, after the fault would begin, if no call fails.
func methodsOf(ctx context.Context, p profile, c command) ([]string, error) {
	h, end, err := newHost(p)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.prepare(ctx, h); err != nil {
		return nil, err
	}
	none := &outage{rt: h.rt}
	r := c.do(ctx, h, slowLimit, none)
	if err := c.holds(h, r); r.code != c.code || err != nil {
		return nil, fmt.Errorf("%s alone: code %d, %v: %s", c.name, r.code, err, r.err)
	}
	return append(slices.Clone(c.streams), slices.DeleteFunc(none.calls(), func(m string) bool { return slices.Contains(c.streams, m) })...), nil
}

// plan lists all cells of a profile.
func plan(ctx context.Context, p profile) ([]cell, error) {
	methods, errs := make([][]string, len(commands)), make([]error, len(commands))
	inLanes(len(commands), func(i int) { methods[i], errs[i] = methodsOf(ctx, p, commands[i]) })
	var out []cell
	for i, c := range commands {
		for _, method := range methods[i] {
			for _, m := range mishaps {
				if !m.hits(method) {
					continue
				}
				for _, all := range []bool{false, true} {
					for _, next := range []string{"apply", "delete"} {
						out = append(out, cell{p, c, method, m, all, next})
					}
				}
			}
		}
	}
	return out, errors.Join(errs...)
}

// verdict is the result of a cell.
type verdict struct {
	cell
	first result
	// a late exit, an incorrect code, or a message that does not name an object
	wrong     string
	lie       string // the failed check, although the exit code says that the command has succeeded
	diverged  string // the failure of the next command, or its failed check
	trouble   string // a problem of the test itself
	exercised bool
}

// sample is the distance between the cells that the short form selects; the selection differs for
// each profile. It is a prime number, so that the selection includes all commands, methods and
// mishaps.
const sample = 151

// TestMatrix makes calls to the runtime fail: the first or every call of each method that a command
// uses, in each way. In all cases, the command must exit in time, with a correct code and a message
// that names the object. The next apply must make the pod run in one sandbox, and the next delete
// must leave nothing behind. In ring 3, it tries all cells; otherwise one in sample.
// PODRUN_FAULT_ONLY is a substring of the names of the selected cells.
func TestMatrix(t *testing.T) {
	ring.RequireRoot(t)
	tried := 0
	for n, p := range profiles {
		all, err := plan(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var chosen []cell
		only := os.Getenv("PODRUN_FAULT_ONLY")
		for i, c := range all {
			if strings.Contains(c.String(), only) && (only != "" || ring.Is(3) || i%sample == n && !c.long()) {
				chosen = append(chosen, c)
			}
		}
		if tried += len(chosen); len(chosen) > 0 {
			report(t, p, len(all), sweep(t, chosen))
		}
	}
	if tried == 0 {
		t.Fatal("no cell was selected")
	}
}

// long reports whether a cell may use the whole time limit of a rollback, or of the removal at
// the end of run.
func (c cell) long() bool {
	return c.mishap.silent && c.all && (c.command.name == "run" || c.method == "StopPodSandbox" || c.method == "RemovePodSandbox")
}

// lanes returns the number of cells that run in parallel. Cells spend most of their time waiting, so
// there are more lanes than CPUs. The short form has fewer, because it shares the CPUs with other
// tests: with 12 lanes per CPU, commands exceed their timeouts on a slow machine.
func lanes() int {
	if ring.Is(3) {
		return 12 * runtime.NumCPU()
	}
	return 4 * runtime.NumCPU()
}

// tooEarly means that the limit of a command expired while the command read its manifest, which happens on a busy
// machine.
const tooEarly = "the limit expired before the first call"

func sweep(t *testing.T, cells []cell) []verdict {
	out := make([]verdict, len(cells))
	inLanes(len(cells), func(i int) {
		for range 3 {
			if out[i] = try(t.Context(), cells[i]); out[i].trouble != tooEarly {
				break
			}
		}
		out[i].log(t)
	})
	return out
}

// inLanes calls do for each number from 0 to n-1, in parallel.
func inLanes(n int, do func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range lanes() {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// try runs one cell.
func try(ctx context.Context, c cell) verdict {
	v := verdict{cell: c}
	h, end, err := newHost(c.profile)
	if err != nil {
		v.trouble = err.Error()
		return v
	}
	defer end()
	if err := c.prepare(ctx, h); err != nil {
		v.trouble = err.Error()
		return v
	}
	f := &outage{rt: h.rt, method: c.method, fault: c.mishap.fault}
	if c.rollsBack || c.late {
		f.lasts = c.limit()
	}
	if !c.all {
		f.fault.Times = 1
	} else if f.fault.When == critest.Slow {
		f.fault.Delay /= 10
	}
	v.first = c.do(ctx, h, c.limit(), f)
	v.exercised = slices.Contains(f.calls(), c.method)
	if !v.exercised && strings.Contains(v.first.err, "the input did not end within --timeout") {
		v.trouble = tooEarly
		return v
	}
	v.wrong = c.wrong(v.first)
	holds := func(*host, result) error { return nil }
	switch {
	case v.first.code == c.code:
		holds = c.holds
	case c.rollsBack:
		holds = restored
	}
	if err := holds(h, v.first); err != nil {
		v.lie = err.Error()
	}
	v.diverged = c.converge(ctx, h)
	return v
}

// converge runs the next command, and describes the problem with its result, or returns "" if there
// is none. If the next command is apply, converge then deletes the pod, which must leave nothing
// behind.
func (c cell) converge(ctx context.Context, h *host) string {
	if c.next == "apply" {
		if r := h.podrun(ctx, nil, "apply", cmp.Or(c.then, "one.yaml"), "--timeout", slowLimit.String()); r.code != 0 {
			return fmt.Sprintf("apply: code %d after %v: %s", r.code, r.took, last(r.err))
		}
		if err := h.runs(); err != nil {
			return "apply: " + err.Error()
		}
	}
	if r := h.podrun(ctx, nil, "delete", "web", "--ignore-not-found", "--timeout", slowLimit.String()); r.code != 0 {
		return fmt.Sprintf("delete: code %d after %v: %s", r.code, r.took, last(r.err))
	}
	if err := h.gone(); err != nil {
		return "delete: " + err.Error()
	}
	return ""
}

// wrong describes the problem with the command's exit, or returns "" if there is none.
func (c cell) wrong(r result) string {
	most := c.limit() + afterwards
	if c.rollsBack {
		most += slowLimit // the time limit of the restoration
	}
	switch {
	// serve has a time limit for each of its actions
	case c.life != nil:
		if r.code != 0 {
			return fmt.Sprintf("code %d", r.code)
		}
	case r.took > most:
		return fmt.Sprintf("it took %v, more than %v", r.took.Round(time.Millisecond), most)
	// a failed cleanup takes precedence over an expired limit
	case r.code == 125 && strings.Contains(r.err, ": clean up: "):
	case !slices.Contains(c.codes(), r.code):
		return fmt.Sprintf("code %d, want one of %v", r.code, c.codes())
	case r.code != 0 && !names(r.err):
		return "the error names no object and no call"
	}
	return ""
}

// afterwards is how much longer than its limit a command may take. It consists of 5 s for the
// runtime's last call, 30 s and the grace period for a rollback or the removal after run, 5 s for
// the last call of the latter, and a margin for a busy machine.
const afterwards = 45 * time.Second

// codes returns the codes with which the command may exit.
func (c cell) codes() []int {
	if c.mishap.fault.When == critest.Slow {
		return []int{c.command.code}
	}
	codes := []int{0, 125}
	switch {
	case c.late && c.method != "ExecSync":
		codes = []int{c.command.code}
	case c.rollsBack:
		codes = append(codes, 124)
	case c.mishap.silent && !c.unbounded:
		codes = []int{0, 124}
	case c.all:
		codes = append(codes, 124)
	}
	switch c.method {
	case "PullImage", "ImageStatus", "ListImages":
		codes = append(codes, 123)
	// a hook has failed, and podrun has killed its container
	case "ExecSync":
		codes = append(codes, 1, 143)
	}
	return codes
}

// names reports whether an error names its object.
func names(stderr string) bool {
	for line := range strings.Lines(stderr) {
		text, ok := strings.CutPrefix(line, "podrun: ")
		for _, object := range []string{"pod fault/web", "container ", "sandbox", "runtime", "image "} {
			if ok && strings.Contains(text, object) {
				return true
			}
		}
	}
	return false
}

// last returns the end of a text.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], "\n\t")
}

func (v verdict) log(t *testing.T) {
	for what, text := range map[string]string{"wrong": v.wrong, "lied": v.lie, "did not converge": v.diverged, "trouble": v.trouble} {
		if text != "" {
			t.Errorf("%s: %s: %s\n\tcode %d: %s", v, what, text, v.first.code, last(v.first.err))
		}
	}
}

// report prints the counts that docs/reliability.md quotes.
func report(t *testing.T, p profile, all int, verdicts []verdict) {
	var b strings.Builder
	fmt.Fprintf(&b, "fault matrix, %s: %d cells of %d\n%-26s %6s %6s %6s %6s %9s %14s  codes\n", p.name, len(verdicts), all, "", "cells", "wrong", "lies", "leaks", "slowest", "over the limit")
	for _, m := range mishaps {
		var n, wrong, lies, leaks int
		var slowest, over time.Duration
		codes := map[int]int{}
		for _, v := range verdicts {
			if v.mishap.name != m.name {
				continue
			}
			n++
			for count, is := range map[*int]bool{&wrong: v.wrong != "", &lies: v.lie != "", &leaks: v.diverged != ""} {
				if is {
					*count++
				}
			}
			slowest, over = max(slowest, v.first.took), max(over, v.first.took-v.limit())
			codes[v.first.code]++
		}
		fmt.Fprintf(&b, "%-26s %6d %6d %6d %6d %9.1f %14.1f  %v\n", m.name, n, wrong, lies, leaks, slowest.Seconds(), over.Seconds(), codes)
	}
	slowest := slices.MaxFunc(verdicts, func(a, b verdict) int { return cmp.Compare(a.first.took, b.first.took) })
	fmt.Fprintf(&b, "slowest: %s\n", slowest)
	fmt.Println(b.String())
}
