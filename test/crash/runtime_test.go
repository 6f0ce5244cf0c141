package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/test/ring"
	"github.com/podrun/podrun/test/steps"
)

// freeze is how long a fault suspends containerd with SIGSTOP.
const freeze = 5 * time.Second

// harm is a fault that a test injects into containerd while a command waits for its response.
type harm struct {
	name    string
	do      func(*outside) error
	timeout time.Duration // --timeout of the command
	// the permitted exit codes (docs/exit-codes.md); for code 0, the test also checks the result
	codes []int
}

var harms = []harm{
	{"killed", (*outside).crash, recovery, []int{0, 125}},
	{"frozen", (*outside).freeze, recovery, []int{0}},
	// 125 is permitted because the rollback has its own time limit, and reports the objects that it
	// could not remove.
	{"frozen past the deadline", (*outside).freeze, 2 * time.Second, []int{0, 124, 125}},
}

// overtime is how much longer than its --timeout a command may take: for a rollback or a
// removal (30 s), the runtime's last call (5 s), and the pod's grace period (2 s).
const overtime = 37 * time.Second

// crash kills containerd with SIGKILL and restarts it.
func (o *outside) crash() error {
	out, err := exec.Command("../../hack/runtime", "crash").CombinedOutput()
	if err != nil {
		return fmt.Errorf("hack/runtime crash: %w: %s", err, out)
	}
	return nil
}

// freeze suspends containerd for a while.
func (o *outside) freeze() error {
	text, err := os.ReadFile(filepath.Join(o.dir, "containerd.pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(freeze)
	return syscall.Kill(pid, syscall.SIGCONT)
}

// ownRuntime starts a separate containerd for this test, because the test kills it.
func ownRuntime(t *testing.T) *outside {
	shared := filepath.Dir(strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://"))
	t.Setenv("PODRUN_RUNTIME_DIR", fmt.Sprintf("%s/faults-%d", filepath.Dir(shared), os.Getpid()))
	t.Cleanup(func() {
		if out, err := exec.Command("../../hack/runtime", "down").CombinedOutput(); err != nil {
			t.Errorf("hack/runtime down: %v: %s", err, out)
		}
	})
	var stderr bytes.Buffer
	up := exec.Command("../../hack/runtime", "up")
	up.Stderr = &stderr
	exports, err := up.Output()
	if err != nil {
		t.Fatalf("hack/runtime up: %v: %s", err, &stderr)
	}
	for line := range strings.Lines(string(exports)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		t.Setenv(name, value)
	}
	o, err := newOutside()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// fault is one cell: the test injects a harm while a command executes a step, and another command
// follows.
type fault struct {
	cell
	harm
}

func (f fault) name() string { return f.cell.name() + "/" + f.harm.name }

// TestRuntimeFaults kills and freezes a separate containerd in each phase of apply, run and delete.
// The command must exit in time with a correct code, and the next apply or delete must converge. By
// default, it tries two faults. In ring 3, it tries all of them, or one in
// PODRUN_CRASH_EVERY. PODRUN_CRASH_SEED and PODRUN_CRASH_ONLY select the faults as in
// TestCrashSweep.
func TestRuntimeFaults(t *testing.T) {
	if program == "" || os.Getenv("PODRUN_TEST_IMAGE") == "" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set")
	}
	only, err := regexp.Compile(os.Getenv("PODRUN_CRASH_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	o := ownRuntime(t)
	dir := t.TempDir()
	chosen := []fault{
		{cell{command: "apply", point: "cri/StartContainer/sent#1", then: "apply"}, harms[0]},
		{cell{command: "delete", point: "cri/StopPodSandbox/sent#1", then: "delete"}, harms[2]},
	}
	all := chosen
	if ring.Is(3) {
		if all, err = faults(o, dir); err != nil {
			t.Fatal(err)
		}
		seed := uint64(number("PODRUN_CRASH_SEED", 1))
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		chosen = nil
		for i, f := range all {
			if i%number("PODRUN_CRASH_EVERY", 1) == 0 && only.MatchString(f.name()) {
				chosen = append(chosen, f)
			}
		}
	}
	// This call ignores leftovers from before the test.
	o.leaks(t.Context(), newHost(dir, 0))
	var tried []harmed
	for i, f := range chosen {
		if end, bounded := t.Deadline(); bounded && time.Until(end) < 2*patience {
			break
		}
		v := o.tryFault(t.Context(), newHost(dir, 1000+i), f)
		v.log(t)
		tried = append(tried, v)
	}
	reportFaults(len(all), tried)
}

// faults lists all faults: one for each step at which a command waits for containerd. Of calls that
// only read, it includes only the first one.
func faults(o *outside, dir string) ([]fault, error) {
	cells, err := plan(o, dir, "apply", "run", "delete")
	var out []fault
	for _, c := range cells {
		step, _, _ := strings.Cut(c.point, "@")
		if !strings.Contains(step, "/sent#") {
			step = strings.Replace(step, "/after#", "/sent#", 1)
		}
		if !strings.HasPrefix(step, "cri/") || !strings.Contains(step, "/sent#") ||
			strings.HasSuffix(c.point, "/after#2") && step != c.point && len(steps.Delays[strings.Split(step, "/")[1]]) == 0 {
			continue
		}
		for _, h := range harms {
			f := fault{cell{command: c.command, point: step, then: c.then}, h}
			if !slices.ContainsFunc(out, func(other fault) bool { return other.name() == f.name() }) {
				out = append(out, f)
			}
		}
	}
	return out, err
}

// harmed is the result of a fault.
type harmed struct {
	verdict
	harm string
	code int // exit code of the command
	// time that the command took in addition to its --timeout
	over time.Duration
}

// tryFault executes one fault.
func (o *outside) tryFault(ctx context.Context, h *host, f fault) harmed {
	v := harmed{verdict: verdict{cell: f.cell}, harm: f.harm.name}
	v.point += "/" + f.harm.name
	args, before, err := h.command(f.command)
	if err == nil {
		err = h.prepare(before)
	}
	if err != nil {
		v.trouble = err.Error()
		return v
	}
	trace := filepath.Join(h.dir, "trace")
	watch, ended := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- o.harmAt(watch, trace, f) }()
	r := h.podrun([]string{"PODRUN_FAULTPOINT_TRACE=" + trace}, append(args, "--timeout", f.timeout.String())...)
	ended()
	// If a command exited before the step, the fault had no effect on it.
	if err := <-done; err == nil {
		v.killed = true
	} else if !errors.Is(err, context.Canceled) {
		v.trouble = err.Error()
	}
	v.code, v.over = r.code, r.took-f.timeout
	if v.over > overtime {
		v.failed = fmt.Sprintf("ended after %v, --timeout %v: %s", r.took, f.timeout, last(r.out, 3))
	}
	// After a freeze, containerd may not know the state of a sandbox's task for a moment. It then
	// gives a container the namespaces of process 0 (containerd issue 9160). If a container exits
	// while containerd is down, containerd 2 may report an unknown exit code as 255. With a
	// kubelet, the status is the same.
	unknown := f.harm.name == "killed" && r.code == 255 && strings.Contains(r.out, "exited with 255 (Unknown)")
	if unknown || r.code == 125 && strings.Contains(r.out, "lstat /proc/0/ns/") {
		v.lost++
	} else if !slices.Contains(f.codes, r.code) {
		v.failed = fmt.Sprintf("code %d after %v: %s", r.code, r.took, last(r.out, 3))
	}
	if r.code == 0 {
		if f.command == "apply" {
			err = o.runs(ctx, h.pod)
		} else {
			err = o.gone(ctx, h)
		}
		if err != nil {
			v.lied = "code 0, but " + err.Error()
		}
	}
	o.andThen(ctx, h, &v.verdict)
	if f.harm.name == "killed" {
		leaks := len(v.leaks)
		v.leaks = slices.DeleteFunc(v.leaks, o.lostByContainerd)
		v.lost += leaks - len(v.leaks)
	}
	return v
}

// lostByContainerd reports whether a leak is of a kind that a kill of containerd leaves behind, and
// that podrun cannot assign to a pod. One kind is a task without a runc container, which remains if
// containerd 1.6 is killed while it starts or stops a shim. After a restart, it may not find the
// task. The task's directory then remains until the next start of containerd, and a shim whose
// start was complete remains until it is killed. The other kind is a network namespace, which
// remains if containerd is killed before it has stored the sandbox (containerd/cri issue 568).
func (o *outside) lostByContainerd(leak string) bool {
	if strings.HasPrefix(leak, "interface or network namespace cni-") {
		return true
	}
	what, id, _ := strings.Cut(leak, " ")
	if what != "task" && what != "bundle" && what != "shim" {
		return false
	}
	_, err := os.Stat(filepath.Join(o.dir, "runc", "k8s.io", id))
	return os.IsNotExist(err)
}

// harmAt waits until the command has reached the step, and then injects the fault.
func (o *outside) harmAt(ctx context.Context, trace string, f fault) error {
	for ctx.Err() == nil {
		if text, _ := os.ReadFile(trace); strings.Contains(string(text), f.point+"\n") { // an error means that the file has not been created yet
			return f.do(o)
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// reportFaults prints the counts that docs/reliability.md quotes.
func reportFaults(points int, all []harmed) {
	var b strings.Builder
	fmt.Fprintf(&b, "runtime faults: %d of %d\n%-34s %6s %6s %6s %6s %6s %8s %6s %6s %6s %8s\n", len(all), points,
		"command, containerd", "faults", "hit", "0", "124", "125", "failures", "lies", "leaks", "lost", "over")
	for _, command := range []string{"apply", "run", "delete", ""} {
		for _, h := range harms {
			var n, hit, failures, lies, leaks, lost int
			codes, over := map[int]int{}, time.Duration(0)
			for _, v := range all {
				if v.command != command && command != "" || v.harm != h.name {
					continue
				}
				n++
				codes[v.code]++
				lost += v.lost
				over = max(over, v.over)
				for count, is := range map[*int]bool{&hit: v.killed, &failures: v.failed != "", &lies: v.lied != "", &leaks: len(v.leaks) > 0} {
					if is {
						*count++
					}
				}
			}
			name := map[bool]string{true: "all", false: command}[command == ""] + ", " + h.name
			fmt.Fprintf(&b, "%-34s %6d %6d %6d %6d %6d %8d %6d %6d %6d %8v\n", name, n, hit, codes[0], codes[124], codes[125],
				failures, lies, leaks, lost, over.Round(100*time.Millisecond))
		}
	}
	fmt.Println(b.String())
}
