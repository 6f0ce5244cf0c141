// Package hostile measures the resources that podrun's commands use to accept or reject input that
// is designed to be expensive. It runs podrun as a process to measure its memory.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cri/critest"
	_ "github.com/podrun/podrun/internal/heap"
	"github.com/podrun/podrun/test/inherited"
	"github.com/podrun/podrun/test/ring"
	// The podrun binary imports this package, so the import makes the test use the same heap
	// settings.
)

// childEnv is an environment variable that makes a process of the test binary run podrun. It
// names the file for the process's memory usage. (The maximum RSS that wait4(2) reports
// can be that of the parent process.)
const childEnv = "PODRUN_HOSTILE_CHILD"

func TestMain(m *testing.M) {
	if file := os.Getenv(childEnv); file != "" {
		code := cmd.Main(context.Background(), os.Args[1:], cmd.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "test", time.Now())
		status, err := os.ReadFile("/proc/self/status")
		if err == nil {
			err = os.WriteFile(file, status, 0o600)
		}
		if err != nil {
			code = 99
		}
		os.Exit(code)
	}
	ring.Package(2)
	inherited.Reset()
	// The variables of the real runtime of the tests are dropped.
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PODRUN_") && name != "PODRUN_TEST_RING" && name != "PODRUN_HOSTILE_ONLY" || name == "CONTAINER_RUNTIME_ENDPOINT" {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// limits are the resource limits for an input.
type limits struct {
	time   time.Duration
	memory int // peak resident set, in MB
}

var ofDocument, ofStream = limits{2 * time.Second, 150}, limits{6 * time.Second, 500}

// slack is the factor by which the test raises the limits on slow and busy machines.
const slack = 2

func (in input) limits() limits {
	if in.stream {
		return ofStream
	}
	return ofDocument
}

// commands are the commands that read manifests. None of them creates objects, because the test
// does not measure the cost of running the input.
var commands = [][]string{
	{"plan"}, {"apply", "--dry-run=client"}, {"apply", "--dry-run=server"}, {"diff"}, {"delete"}, {"create", "--dry-run=client"}, {"run", "--dry-run=server"},
}

// measured is the resource usage of a command.
type measured struct {
	input   input
	command string
	code    int
	took    time.Duration
	memory  int // in MB
	said    string
}

// serveFake serves a fake runtime on the socket that podrun uses, in a new directory.
func serveFake(t *testing.T) (base string) {
	t.Helper()
	base = t.TempDir()
	rt := critest.New()
	t.Cleanup(rt.Close)
	stop, err := rt.Serve(filepath.Join(base, "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return base
}

// TestLimits runs each command with each input. In ring 3, it tries all combinations;
// otherwise it tries only plan with some inputs. PODRUN_HOSTILE_ONLY selects inputs whose names
// contain it.
func TestLimits(t *testing.T) {
	ring.RequireRoot(t)
	base := serveFake(t)
	if err := os.WriteFile(filepath.Join(base, "config.yaml"), []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\nregistryPullQPS: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, only := ring.Is(3), os.Getenv("PODRUN_HOSTILE_ONLY")
	var results []measured
	for i, in := range inputs() {
		if only == "" && !all && !in.gate || !strings.Contains(in.name, only) {
			continue
		}
		dir := filepath.Join(base, fmt.Sprint("in", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		args, err := in.write(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			if !all && command[0] != "plan" {
				continue
			}
			m := measure(t, base, in, command, args)
			results = append(results, m)
			if most := in.limits(); m.took > slack*most.time || m.memory > slack*most.memory || !slices.Contains([]int{0, 1, 121, 122, 123}, m.code) {
				t.Errorf("%s: %s: code %d after %.1f s with %d MB: %.300s", in.name, m.command, m.code, m.took.Seconds(), m.memory, m.said)
			}
		}
		os.RemoveAll(dir)
	}
	report(results)
}

// vmHWM matches the peak resident set, proc_pid_status(5).
var vmHWM = regexp.MustCompile(`VmHWM:\s+([0-9]+) kB`)

// measure runs a command with 4 GB of address space.
func measure(t *testing.T, base string, in input, command, input []string) measured {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	memory := filepath.Join(base, "memory")
	args := slices.Concat([]string{"-c", `ulimit -v 4194304; exec "$0" "$@"`, os.Args[0]}, command, input)
	c := exec.CommandContext(ctx, "sh", args...)
	c.WaitDelay = 30 * time.Second
	c.Env = append(os.Environ(), childEnv+"="+memory, "CONTAINER_RUNTIME_ENDPOINT=unix://"+base+"/cri.sock", "PODRUN_CONFIG="+base+"/config.yaml", "PODRUN_EVICTION_HARD=",
		"PODRUN_ROOT_DIR="+base+"/root", "PODRUN_POD_LOGS_DIR="+base+"/logs", "PODRUN_CONTAINER_LOGS_DIR="+base+"/links", "PODRUN_ALLOW_KUBELET=true")
	// This removes the file of the previous command.
	os.Remove(memory)
	var stderr strings.Builder
	c.Stderr = &stderr
	begun := time.Now()
	err := c.Run()
	m := measured{input: in, command: strings.Join(command, " "), took: time.Since(begun), code: c.ProcessState.ExitCode(), said: stderr.String()}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	// The file does not exist if the process was killed, which the exit code shows.
	status, _ := os.ReadFile(memory)
	if peak := vmHWM.FindSubmatch(status); peak != nil {
		kb, err := strconv.Atoi(string(peak[1]))
		if err != nil {
			t.Fatal(err)
		}
		m.memory = kb >> 10
	}
	return m
}

// report prints the worst results. docs/reliability.md quotes them.
func report(results []measured) {
	over := 0
	for _, m := range results {
		if most := m.input.limits(); m.took > most.time || m.memory > most.memory {
			over++
		}
	}
	fmt.Printf("hostile input: %d commands, %d over the limits (document 2 s, 150 MB; stream 6 s, 500 MB)\n%-40s %-26s %6s %6s %6s\n", len(results), over, "worst of each input", "command", "s", "MB", "code")
	for _, in := range inputs() {
		var worst measured
		for _, m := range results {
			if m.input.name == in.name && cost(m) > cost(worst) {
				worst = m
			}
		}
		if worst.command != "" {
			fmt.Printf("%-40s %-26s %6.1f %6d %6d\n", in.name, worst.command, worst.took.Seconds(), worst.memory, worst.code)
		}
	}
}

// cost returns the greater of two fractions: the usage of memory and of time, each divided by its
// limit.
func cost(m measured) float64 {
	most := m.input.limits()
	return max(m.took.Seconds()/most.time.Seconds(), float64(m.memory)/float64(most.memory))
}
