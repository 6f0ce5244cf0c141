package rootless

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/test/binary"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
	"github.com/podrun/podrun/test/steps"
)

// The commands that the sweep interrupts. "first" is an apply without a runtime; the others have a runtime, and update,
// replace, delete and down have a pod.
var sweepCommands = []string{"first", "apply", "update", "replace", "delete", "down"}

// victims are the processes that the sweep kills while the command is at a step. A command does not depend on the other
// processes between its calls, so they are killed during calls only.
var victims = map[string][]string{
	"podrun":          nil, // kills itself
	"podrun-rootless": {"podrun-rootless --run-dir"},
	"containerd":      {"/containerd --config"},
	"shim":            {"containerd-shim-runc-v2"},
	"runtime":         {"podrun-rootless --run-dir", "/containerd --config", "containerd-shim-runc-v2"},
	"everything":      {""}, // all processes with the user's ID, podrun too, as at the end of a session
}

// crash is one kill and the command that follows it: apply, delete or down.
type crash struct{ command, point, victim, then string }

func (c crash) name() string {
	return strings.Join([]string{c.command, c.point, c.victim, c.then}, "/")
}

// faulty is a podrun-bundle with fault points, of the archive from which PODRUN_TEST_BUNDLE was made.
var faulty = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared, "podrun-faults")
	return path, binary.Build(path, "-tags", "podrun_bundle,faultpoints,grpcnotrace")
})

// TestCrashSweep kills podrun, podrun-rootless, containerd, shims, or all of them, while a user's command is at one of its
// steps. The next command must repair what is broken, host ports included; after delete, and after runtime down,
// nothing may be left. The sample is one cell in PODRUN_CRASH_EVERY: by default 100, and all in ring 3.
// PODRUN_CRASH_SEED selects it; PODRUN_CRASH_ONLY is a regular expression for the names of the cells.
func TestCrashSweep(t *testing.T) {
	planner := newSweeper(t)
	var cells []crash
	for _, command := range sweepCommands {
		cells = append(cells, planner.cells(command)...)
	}
	all := len(cells)
	cells = choose(t, cells)
	var mu sync.Mutex
	counts := map[string][3]int{} // cells, interrupted commands and failures of each command and victim
	queue := make(chan crash, len(cells))
	for _, c := range cells {
		queue <- c
	}
	close(queue)
	t.Run("lanes", func(t *testing.T) {
		for lane := range number("PODRUN_CRASH_LANES", 2) {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				s := newSweeper(t)
				for c := range queue {
					hit, problems := s.try(c)
					if problems != "" {
						t.Errorf("%s: %s", c.name(), problems)
						fmt.Printf("%s: %s\n", c.name(), problems) // at once: a sweep takes long
					}
					mu.Lock()
					n := counts[c.command+", "+c.victim]
					counts[c.command+", "+c.victim] = [3]int{n[0] + 1, n[1] + one(hit), n[2] + one(problems != "")}
					mu.Unlock()
				}
			})
		}
	})
	fmt.Printf("crash sweep of an ordinary user: %d cells of %d\n%-28s %6s %6s %8s\n", len(cells), all, "command, killed process", "cells", "kills", "failures")
	var sum [3]int
	for _, command := range sweepCommands {
		for victim := range victims {
			if n, ok := counts[command+", "+victim]; ok {
				fmt.Printf("%-28s %6d %6d %8d\n", command+", "+victim, n[0], n[1], n[2])
				sum = [3]int{sum[0] + n[0], sum[1] + n[1], sum[2] + n[2]}
			}
		}
	}
	fmt.Printf("%-28s %6d %6d %8d\n", "all", sum[0], sum[1], sum[2])
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// choose returns the sample of the cells.
func choose(t *testing.T, cells []crash) []crash {
	every := 100
	if ring.Is(3) {
		every = 1
	}
	every = number("PODRUN_CRASH_EVERY", every)
	seed := uint64(number("PODRUN_CRASH_SEED", 1))
	t.Logf("PODRUN_CRASH_SEED=%d", seed)
	only, err := regexp.Compile(os.Getenv("PODRUN_CRASH_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	cells = slices.DeleteFunc(cells, func(c crash) bool { return !only.MatchString(c.name()) })
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	var chosen []crash
	for i, c := range cells {
		if i%every == 0 {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// sweeper is a user whose commands the sweep interrupts, one after the other.
type sweeper struct {
	*user
	program string
	port    int
	step    int // the number of cells so far
}

func newSweeper(t *testing.T) *sweeper {
	t.Helper()
	s := &sweeper{user: newUser(t, true)}
	program, err := faulty()
	if err != nil {
		t.Fatalf("%v: 'make bundle' makes the archive", err)
	}
	s.program = program
	s.newPod()
	return s
}

// sweptPod is the pod of the sweep. Its web server responds with the owner of /home/app, which depends on the image,
// and a variant. The arguments are the name, the image, the variant and the host port.
const sweptPod = `apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {key: configured}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {key: secret}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: data, emptyDir: {}}
  - {name: config, configMap: {name: config}}
  - {name: secret, secret: {secretName: secret}}
  initContainers: [{name: init, image: "%[5]s", command: ["true"]}]
  containers:
  - name: web
    image: %[2]s
    command: [sh, -c, "echo %[3]s $(stat -c %%u /home/app) > /memory/index.html; exec httpd -f -p 8080 -h /memory"]
    ports: [{containerPort: 8080, hostPort: %[4]d}]
    volumeMounts:
    - {name: memory, mountPath: /memory}
    - {name: data, mountPath: /sub, subPath: sub}
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
`

// pod is the name of the sweeper's pod.
func (s *sweeper) pod() string { return "web" + strconv.Itoa(s.step) }

// newPod begins a cell: it writes the files of a new pod.
func (s *sweeper) newPod() {
	s.step++
	s.port = port(s.T)
	for file, v := range map[string][2]string{"one": {rootImage, "a"}, "update": {usersImage, "a"}, "replace": {rootImage, "b"}} {
		s.write(file+".yaml", fmt.Sprintf(sweptPod, s.pod(), v[0], v[1], s.port, rootImage))
	}
}

// requested returns the manifest that a command applies, and the response of the pod's server.
func requested(command string) (file, response string) {
	switch command {
	case "update":
		return "update.yaml", "a 1000"
	case "replace":
		return "replace.yaml", "b 0"
	}
	return "one.yaml", "a 0"
}

// arguments returns the arguments of a command.
func (s *sweeper) arguments(command string) []string {
	switch command {
	case "delete":
		return []string{"delete", s.pod()}
	case "down":
		return []string{"runtime", "down", "--force"}
	}
	file, _ := requested(command)
	return []string{"apply", file}
}

// prepare brings the user's runtime into the state that a command requires.
func (s *sweeper) prepare(command string) error {
	args := []string{"apply", "one.yaml"}
	switch command {
	case "first":
		return nil
	case "apply":
		args = []string{"runtime", "up"}
	}
	if out, err := s.run(args...); err != nil {
		return fmt.Errorf("prepare: %w: %s", err, out)
	}
	return nil
}

// cells lists the cells of a command. To determine its steps, it runs the command once.
func (s *sweeper) cells(command string) []crash {
	s.Helper()
	s.newPod()
	s.check(s.prepare(command))
	trace := s.write("trace", "")
	if out, err := s.start(context.Background(), []string{"PODRUN_FAULTPOINT_TRACE=" + trace}, s.arguments(command)...).wait(); err != nil {
		s.Fatalf("%s: %v: %s", command, err, out)
	}
	text, err := os.ReadFile(trace)
	s.check(err)
	s.must("runtime", "down", "--force")
	var out []crash
	seen := map[string]bool{}
	for _, point := range steps.Of(string(text)) {
		if seen[point] { // podrun counts from 1 again after it has entered the namespaces
			continue
		}
		seen[point] = true
		for victim := range victims {
			step, _, _ := strings.Cut(point, "@")
			if victim != "podrun" && !strings.Contains(step, "/sent#") {
				continue
			}
			// down as the next command depends less on the step than the others do. Without a runtime, delete fails.
			thens := []string{"apply", "delete"}
			if command == "down" {
				thens[1] = "down"
			} else if victim != "podrun" {
				thens = append(thens, "down")
			}
			for _, then := range thens {
				out = append(out, crash{command, point, victim, then})
			}
		}
	}
	slices.SortFunc(out, func(a, b crash) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// process is a command that runs.
type process struct {
	*exec.Cmd
	out  *strings.Builder
	done chan error
}

// start starts podrun with fault points.
func (s *sweeper) start(ctx context.Context, env []string, args ...string) process {
	c := s.command(ctx, append([]string{s.program}, args...)...)
	c.Env = append(slices.Clone(c.Env), env...)
	p := process{c, &strings.Builder{}, make(chan error, 1)}
	c.Stdout, c.Stderr = p.out, p.out
	if err := c.Start(); err != nil {
		p.done <- err
	} else {
		go func() { p.done <- c.Wait() }()
	}
	return p
}

func (p process) wait() (string, error) {
	err := <-p.done
	return p.out.String(), err
}

// try runs one cell. It reports whether the command was interrupted, and the problems.
func (s *sweeper) try(c crash) (hit bool, problems string) {
	s.newPod()
	if err := s.prepare(c.command); err != nil {
		return false, err.Error()
	}
	hit, interrupted := s.interrupt(c)
	found := []string{interrupted}
	found = append(found, s.next(c)...)
	if out, err := s.run("runtime", "down", "--force"); err != nil {
		found = append(found, fmt.Sprintf("down: %v: %s", err, out))
	}
	found = append(found, s.leftovers()...)
	found = append(found, s.state()...)
	found = slices.DeleteFunc(found, func(text string) bool { return text == "" })
	if len(found) > 0 {
		found = append(found, "the interrupted command: "+interrupted, s.log())
		s.end()
	}
	return hit, strings.Join(found, "\n\t")
}

// interrupt runs the command of a cell, and kills the victim when the command is at the step. A problem is an exit code
// that the command must not have.
func (s *sweeper) interrupt(c crash) (hit bool, problem string) {
	ctx, cancel := patience.Context(context.Background(), 2*patience.OnRuntime)
	defer cancel()
	env := []string{"PODRUN_FAULTPOINT=" + c.point}
	if c.victim != "podrun" {
		env = append(env, "PODRUN_FAULTPOINT_STOP=1")
	}
	p := s.start(ctx, env, s.arguments(c.command)...)
	var err error
	if c.victim != "podrun" {
		var stopped bool
		if stopped, err = s.whenStopped(ctx, p); stopped {
			hit = s.killAll(victims[c.victim])
			_ = p.Process.Signal(syscall.SIGCONT) // it may be a victim
			err = <-p.done
		}
	} else {
		err = <-p.done
	}
	killed := p.ProcessState != nil && p.ProcessState.Sys().(syscall.WaitStatus).Signaled()
	if c.victim == "podrun" {
		hit = killed
	}
	code := 0
	if p.ProcessState != nil {
		code = p.ProcessState.ExitCode()
	}
	if ctx.Err() != nil || err != nil && !(killed && hit) && !(hit && code == 125) {
		return hit, fmt.Sprintf("%s: %v: %s", c.command, err, p.out)
	}
	return hit, ""
}

// whenStopped waits until a process has stopped, or ended with the returned error.
func (s *sweeper) whenStopped(ctx context.Context, p process) (stopped bool, ended error) {
	over := false
	_ = patience.Until(ctx, func() bool { // the caller checks ctx
		select {
		case ended = <-p.done:
			over = true
		default:
			state, _, _ := rootless.Stat(p.Process.Pid)
			stopped = state == "T"
		}
		return stopped || over
	})
	if !stopped && !over {
		_ = p.Process.Kill()
		ended = <-p.done
	}
	return stopped, ended
}

// killAll kills the processes of the user whose command lines contain one of the texts, and waits until they have ended.
// Processes with subordinate IDs remain: the user cannot end them.
func (s *sweeper) killAll(texts []string) bool {
	var killed []int
	for pid, line := range s.processes() {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) && realUID("/proc/"+strconv.Itoa(pid)) == s.uid {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed = append(killed, pid)
			}
		}
	}
	patience.Wait(s, patience.OnRuntime, "killed processes do not end", func() bool {
		return !slices.ContainsFunc(killed, func(pid int) bool {
			state, _, ok := rootless.Stat(pid)
			return ok && state != "Z" && state != "X"
		})
	})
	return len(killed) > 0
}

// next runs the command after the kill, and checks its result.
func (s *sweeper) next(c crash) (problems []string) {
	add := func(format string, values ...any) { problems = append(problems, fmt.Sprintf(format, values...)) }
	if c.then == "down" {
		return nil // try runs it
	}
	if c.then == "apply" {
		file, response := requested(c.command)
		if out, err := s.run("apply", file, "--wait=ready"); err != nil {
			add("apply after the kill: %v: %s", err, out)
		} else if err := s.responds(response); err != nil {
			add("after apply: %v", err)
		}
		if out, err := s.run("delete", s.pod()); err != nil {
			add("delete: %v: %s", err, out)
		}
	} else if out, err := s.run("delete", "--ignore-not-found", s.pod()); err != nil {
		add("delete after the kill: %v: %s", err, out)
	}
	return append(problems, s.leftoversOfPod()...)
}

// responds waits until the pod responds with a text.
func (s *sweeper) responds(want string) error {
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	got := ""
	if err := patience.Until(ctx, func() bool { got = get(s.port); return got == want }); err != nil {
		return fmt.Errorf("the host port responds with %q, want %q: %w", got, want, err)
	}
	return nil
}

// leftoversOfPod lists what remains of a pod that was deleted while the runtime runs.
func (s *sweeper) leftoversOfPod() (left []string) {
	if get(s.port) != "" {
		left = append(left, "the host port")
	}
	data, err := os.ReadFile(filepath.Join(s.runDir(), "ports.json"))
	if err == nil && strings.Contains(string(data), strconv.Itoa(s.port)) {
		left = append(left, "ports.json: "+string(data))
	}
	if out, err := s.run("get", "--no-headers"); err != nil || !strings.Contains(out, "no pods found") {
		left = append(left, fmt.Sprintf("get: %v: %s", err, out))
	}
	for pid, line := range s.processes() {
		if strings.Contains(line, "containerd-shim") || realUID("/proc/"+strconv.Itoa(pid)) >= s.first {
			left = append(left, fmt.Sprintf("process %d: %s", pid, line))
		}
	}
	if _, err := os.Lstat(filepath.Join(s.root(), "locks", "default_"+s.pod())); err == nil {
		left = append(left, "the pod's lock")
	}
	return append(left, s.state()...)
}

// root is the root directory.
func (s *sweeper) root() string { return filepath.Join(s.home, ".local/share/podrun") }

// state lists the state of pods.
func (s *sweeper) state() (left []string) {
	for _, dir := range []string{"pods", "owners", "claims", "reservations", "logs", "container-logs"} {
		entries, _ := os.ReadDir(filepath.Join(s.root(), dir)) // a directory that was never made is empty
		for _, e := range entries {
			left = append(left, dir+"/"+e.Name())
		}
	}
	return left
}

// end kills all processes of the user and of the subordinate IDs, so that a failure does not affect the next cell.
func (s *sweeper) end() {
	for pid := range s.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	if out, err := s.run("runtime", "down", "--force"); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
}
