package fault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/ring"
)

// harm is the way in which one of two commands is interrupted.
type harm string

const (
	killed      harm = "killed"            // SIGKILL
	interrupted harm = "interrupted"       // SIGINT
	frozen      harm = "frozen"            // SIGSTOP until the other command has exited
	overdue     harm = "past the deadline" // the command's --timeout expires
)

var harms = []harm{killed, interrupted, frozen, overdue}

// member is one of two commands that act on the pod at the same time.
type member struct {
	name string
	args []string
	// the state that the pod must have if the command is the first one
	before string
	// the state of the pod after the command has succeeded: runs, stopped or gone; "" means any
	// state
	goal string
	// ends means that the command may stop the pod's containers, even if it is interrupted.
	ends bool
}

var members = []member{
	{"apply", []string{"apply", "one.yaml"}, "", "runs", false},
	{"apply changed", []string{"apply", "two.yaml"}, "running", "runs", true},
	{"run", []string{"run", "--replace", "job.yaml"}, "", "gone", true},
	{"delete", []string{"delete", "web"}, "running", "gone", true},
	{"stop", []string{"stop", "web"}, "running", "stopped", true},
	{"start", []string{"start", "web"}, "stopped", "runs", false},
	{"restart", []string{"restart", "web"}, "running", "runs", true},
	{"wait", []string{"wait", "web", "--for=condition=Ready"}, "running", "", false},
}

// pair is one cell: the first command is delayed in one of its calls, the second one starts,
// and then one of them is interrupted.
type pair struct {
	first, second member
	method        string // method of the delayed call
	nth           int    // index of the call among those of the method, from 0
	harm          harm
	victim        int // the interrupted command: 0 for the first one, 1 for the second one
	// served means that a third process, `podrun serve`, supervises the pod. serve never exits, so
	// no command may wait for it.
	served bool
}

func (p pair) String() string {
	beside := ""
	if p.served {
		beside = " | beside serve"
	}
	return fmt.Sprintf("%s in %s #%d | %s | the %s %s%s", p.first.name, p.method, p.nth+1, p.second.name, []string{"first", "second"}[p.victim], p.harm, beside)
}

const (
	// holdUp is how long the first command is delayed in its call.
	holdUp = 1500 * time.Millisecond
	// lead is the time between the first call of the second command and the interruption.
	lead = 100 * time.Millisecond
	// pairLimit is the --timeout of a command. It is long because a command that exceeds it fails the cell,
	// even if the machine is only slow. It is frozenLimit for a command that may wait while the other one
	// is frozen, and shortLimit for a command that its deadline interrupts.
	pairLimit, frozenLimit, shortLimit = 3 * time.Minute, 6 * time.Second, time.Second
	// pairSample is the distance between the cells that the short form selects. It is a prime
	// number, so that the selection includes all commands, methods and harms.
	pairSample = 307
)

// TestPairsOfProcesses runs pairs of commands on one pod as processes. It interrupts either of them
// at each call of the first one: with SIGKILL, with SIGINT, with SIGSTOP until the other one has
// exited, or by its deadline. A model checks the state of the pod, which the test determines
// independently of podrun, and the exit codes. Another apply and a delete must then succeed. It
// complements test/engine/ownership.TestPairs with cases that require processes. In some of the cells,
// `podrun serve` runs as a third process. In ring 3, it tries all cells; otherwise one
// in pairSample or in PODRUN_FAULT_EVERY. PODRUN_FAULT_ONLY is a substring of the names of the
// selected cells, and PODRUN_FAULT_ROUNDS is the number of times that each cell is tried.
func TestPairsOfProcesses(t *testing.T) {
	ring.RequireRoot(t)
	all, err := planPairs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	only, every := os.Getenv("PODRUN_FAULT_ONLY"), pairSample
	if ring.Is(3) {
		every = 1
	}
	if n, err := strconv.Atoi(os.Getenv("PODRUN_FAULT_EVERY")); err == nil && n > 0 {
		every = n
	}
	var chosen []pair
	for i, p := range all {
		if strings.Contains(p.String(), only) && (only != "" || i%every == 0) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		t.Skip("no cell has that name")
	}
	if n, err := strconv.Atoi(os.Getenv("PODRUN_FAULT_ROUNDS")); err == nil && n > 1 {
		chosen = slices.Repeat(chosen, n)
	}
	tried := make([]pairVerdict, len(chosen))
	inLanes(len(chosen), func(i int) {
		tried[i] = tryPair(t.Context(), chosen[i])
		tried[i].log(t)
	})
	reportPairs(len(all), tried)
}

// planPairs lists all cells: one for each call that a command makes if it runs alone. For a
// call that only reads, it lists at most two cells, and none with serve, which also makes such
// calls.
func planPairs(ctx context.Context) ([]pair, error) {
	var out []pair
	for _, first := range members {
		h, end, err := newHost(profiles[0])
		if err != nil {
			return nil, err
		}
		err = command{before: first.before}.prepare(ctx, h)
		h.rt.ForgetCalls()
		if err == nil {
			if r := h.podrun(ctx, nil, first.args...); r.code != 0 {
				err = fmt.Errorf("%s alone: code %d: %s", first.name, r.code, r.err)
			}
		}
		calls := h.rt.Calls()
		end()
		if err != nil {
			return nil, err
		}
		seen := map[string]int{}
		for _, call := range calls {
			n := seen[call.Method]
			seen[call.Method]++
			if n >= 2 && readsOnly(call.Method) {
				continue
			}
			for _, second := range members {
				for _, harm := range harms {
					for victim := range 2 {
						out = append(out, pair{first, second, call.Method, n, harm, victim, false})
						if !readsOnly(call.Method) {
							out = append(out, pair{first, second, call.Method, n, harm, victim, true})
						}
					}
				}
			}
		}
	}
	return out, nil
}

func readsOnly(method string) bool {
	return strings.HasPrefix(method, "List") || strings.HasSuffix(method, "Status") || method == "Version" || method == "RuntimeConfig"
}

// ending is the exit of a command of a pair.
type ending struct {
	result
	at time.Time
	// the signal that terminated the command; 0 if none did
	signal syscall.Signal
}

// pairVerdict is the result of a cell.
type pairVerdict struct {
	pair
	reached   bool // true if the first command made the call
	ends      [2]ending
	violation string
	// the failure of the next command, or its failed check
	diverged string
	trouble  string // a problem of the test itself
}

// tryPair runs one cell.
func tryPair(ctx context.Context, p pair) pairVerdict {
	v := pairVerdict{pair: p}
	h, end, err := newHost(profiles[0])
	if err != nil {
		v.trouble = err.Error()
		return v
	}
	defer end()
	if err := (command{before: p.first.before}).prepare(ctx, h); err != nil {
		v.trouble = err.Error()
		return v
	}
	endServe := func() {}
	if p.served {
		if endServe, err = h.supervise(ctx); err != nil {
			v.trouble = err.Error()
			return v
		}
		defer func() { endServe() }()
	}
	h.rt.ForgetCalls()
	// The runtime may still be executing the call of a killed process.
	fault := critest.Fault{When: critest.Slow, Delay: holdUp, Skip: p.nth, Times: 1}
	if p.harm == killed {
		fault.When = critest.Late
	}
	clear := h.rt.Fault(p.method, fault)
	defer clear()

	bounded, cancel := context.WithTimeout(ctx, pairLimit+2*afterwards)
	defer cancel()
	first := h.start(bounded, p, 0)
	for end := time.Now().Add(pairLimit); !first.over() && h.callsTo(p.method) <= p.nth && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
	v.reached = h.callsTo(p.method) > p.nth
	before := len(h.rt.Calls())
	second := h.start(bounded, p, 1)
	for end := time.Now().Add(holdUp); !second.over() && len(h.rt.Calls()) == before && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
	time.Sleep(lead)
	harmed := time.Now()
	both := [2]*started{first, second}
	v.trouble = p.harm.do(both[p.victim], both[1-p.victim])
	v.ends = [2]ending{first.wait(), second.wait()}
	// After this time, the runtime has completed its late calls.
	time.Sleep(time.Until(harmed.Add(holdUp + 100*time.Millisecond)))
	v.violation = v.check(h, harmed)
	// serve completes the work of an interrupted command.
	if p.served {
		// converges reports the error of the last check
		_ = until(ctx, converges, func() error {
			if v.violation = v.check(h, harmed); v.violation != "" {
				return errors.New(v.violation)
			}
			return nil
		})
		endServe()
		endServe = func() {}
	}
	v.diverged = cell{command: command{then: "one.yaml"}, next: "apply"}.converge(ctx, h)
	return v
}

// supervise runs `podrun serve` with an empty directory until end is called.
func (h *host) supervise(ctx context.Context) (end func(), err error) {
	dir := filepath.Join(h.dir, "manifests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := h.process(ctx, nil, "serve", dir)
	stderr, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	ready, drained := make(chan bool, 1), make(chan struct{})
	go func() {
		defer close(drained)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "supervising the pods of") {
				ready <- true
			}
		}
		close(ready)
	}()
	end = func() {
		late := time.AfterFunc(endsWithin, cancel)
		// this has no effect if serve has already exited
		_ = c.Process.Signal(syscall.SIGTERM)
		<-drained
		// the state of the process contains the result
		_ = c.Wait()
		late.Stop()
		cancel()
	}
	if !<-ready {
		end()
		return nil, errors.New("serve did not start")
	}
	return end, nil
}

// callsTo returns the number of calls of a method so far.
func (h *host) callsTo(method string) (n int) {
	for _, call := range h.rt.Calls() {
		if call.Method == method {
			n++
		}
	}
	return n
}

// started is a running command.
type started struct {
	cmd  *exec.Cmd
	done chan struct{}
	end  ending
}

// start starts a command of a pair.
func (h *host) start(ctx context.Context, p pair, which int) *started {
	limit := pairLimit
	switch {
	case p.harm == overdue && which == p.victim:
		limit = shortLimit
	case p.harm == frozen && which != p.victim:
		limit = frozenLimit
	}
	args := h.paths([]member{p.first, p.second}[which].args)
	s := &started{cmd: h.process(ctx, nil, append(args, "--timeout", limit.String())...), done: make(chan struct{})}
	begun := make(chan struct{})
	go func() {
		defer close(s.done)
		var out, stderr strings.Builder
		s.cmd.Stdout, s.cmd.Stderr = &out, &stderr
		from := time.Now()
		err := s.cmd.Start()
		close(begun)
		if err != nil {
			s.end = ending{result: result{code: -1, err: err.Error()}, at: time.Now()}
			return
		}
		// the state of the process contains the result
		_ = s.cmd.Wait()
		s.end = ending{result: result{code: s.cmd.ProcessState.ExitCode(), out: out.String(), err: stderr.String(), took: time.Since(from)}, at: time.Now()}
		if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			s.end.signal = ws.Signal()
		}
	}()
	<-begun
	return s
}

func (s *started) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *started) wait() ending {
	<-s.done
	return s.end
}

// do interrupts the victim. It returns a problem of the test itself, or "".
func (k harm) do(victim, other *started) (trouble string) {
	signal := func(s syscall.Signal) {
		if victim.cmd.Process == nil {
			trouble = "the victim did not start"
		} else if err := victim.cmd.Process.Signal(s); err != nil && !victim.over() {
			if !errors.Is(err, os.ErrProcessDone) {
				trouble = err.Error()
			}
		}
	}
	switch k {
	case killed:
		signal(syscall.SIGKILL)
	case interrupted:
		signal(syscall.SIGINT)
	case frozen:
		signal(syscall.SIGSTOP)
		other.wait()
		signal(syscall.SIGCONT)
	}
	return trouble
}
