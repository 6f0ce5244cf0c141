package trial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/test/binary"
	"github.com/podrun/podrun/test/ring"
)

// program is the path of the podrun under test; it is empty without a container runtime.
var program string

func TestMain(m *testing.M) {
	ring.Package(2)
	binary.Main(m, &program)
}

// Environment variables of `make trial`.
const (
	enabled = "PODRUN_TRIAL" // enables the trial
	// a list of IDs, separated by commas: the trial runs only these, and does not compare the counts
	only = "PODRUN_TRIAL_ONLY"
	// the file to which the trial writes one line for each command, with the fingerprint for
	// testdata/marks.tsv
	report = "PODRUN_TRIAL_REPORT"
)

// maxReported is the number of bytes of a command's output in the report.
const maxReported = 2000

// commandsFile is data of a third party, which is not part of the project. It is in a parent directory of the
// checkout, which may be several levels above a worktree. ownCommands is a file of this project with
// additional commands, which the trial runs after those of commandsFile.
const (
	commandsFile = "shared/research/commands.tsv"
	ownCommands  = "testdata/commands.tsv"
)

// commandTimeout terminates commands that do not exit by themselves, such as port-forward.
// (Most users press Ctrl-C earlier.)
const commandTimeout = 25 * time.Second

// command is one line of a file of commands.
type command struct {
	id, audience, line string
	code               int   // its exit code in the first trial
	class              class // its class in the first trial
}

// result is the result of a command.
type result struct {
	code   int
	output string
}

// The limits for the number of commands in each class. If a commit relaxes a limit, it must explain why. On
// 2026-11-27, 553 of 925 commands worked, 371 were refused with help, 1 was refused without help, and none
// was confusing. On a busy machine, the output of a few commands differs from the output that a reader
// marked.
const (
	minWorks     = 545
	maxBare      = 3
	maxConfusing = 3
)

// TestTrial runs all commands of the trial, and counts their classes. It runs them in the order of the list,
// because they act on the same pods.
func TestTrial(t *testing.T) {
	switch {
	case os.Getenv(enabled) == "":
		t.Skip("a long test: make trial")
	case program == "":
		t.Skip("requires a container runtime: eval \"$(hack/runtime up)\"")
	case os.Getuid() != 0:
		t.Skip("requires root")
	}
	path, ok := above(commandsFile)
	if !ok {
		t.Skipf("the commands of the trial are missing: no directory above this one contains %s", commandsFile)
	}
	commands, err := readCommands(path)
	if err != nil {
		t.Fatal(err)
	}
	own, err := readCommands(ownCommands)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := readMarks("testdata/marks.tsv")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkspace(t)
	out := bufio.NewWriter(reportFile(t))
	defer out.Flush()
	counts := map[string]map[class]int{}
	for _, c := range append(commands, own...) {
		if !selected(c.id) {
			continue
		}
		w.before(t, c.id)
		r := result{code: c.code}
		// The commands t1, t2 and so on were typed into a terminal. Only their marks count.
		if !strings.HasPrefix(c.id, "t") {
			r = w.run(t, c.line)
		}
		judged := judge(c, r, marks[c.id])
		if counts[c.audience] == nil {
			counts[c.audience] = map[class]int{}
		}
		counts[c.audience][judged]++
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", c.id, c.audience, judged, r.code, c.line, fingerprint(r), flat(r.output, maxReported))
		out.Flush()
	}
	total := table(t, counts)
	if os.Getenv(only) == "" {
		check(t, total)
	}
}

// above finds a file in the nearest parent of the working directory that contains it, and returns
// its path.
func above(name string) (path string, ok bool) {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		path = filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// table logs the counts for each audience, and returns their sum.
func table(t *testing.T, counts map[string]map[class]int) map[class]int {
	total := map[class]int{}
	t.Logf("%-20s %6s %8s %5s %10s", "audience", works, helpful, bare, confusing)
	for _, audience := range slices.Sorted(maps.Keys(counts)) {
		n := counts[audience]
		t.Logf("%-20s %6d %8d %5d %10d", audience, n[works], n[helpful], n[bare], n[confusing])
		for c, k := range n {
			total[c] += k
		}
	}
	t.Logf("%-20s %6d %8d %5d %10d", "all", total[works], total[helpful], total[bare], total[confusing])
	return total
}

func check(t *testing.T, total map[class]int) {
	if total[works] < minWorks {
		t.Errorf("%d commands work, want at least %d", total[works], minWorks)
	}
	if total[bare] > maxBare {
		t.Errorf("%d commands are refused without help, want at most %d", total[bare], maxBare)
	}
	if total[confusing] > maxConfusing {
		t.Errorf("%d commands are confusing, want at most %d", total[confusing], maxConfusing)
	}
}

func selected(id string) bool {
	list := os.Getenv(only)
	return list == "" || slices.Contains(strings.Split(list, ","), id)
}

func reportFile(t *testing.T) *os.File {
	path := os.Getenv(report)
	if path == "" {
		path = os.DevNull
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// run runs a command in a shell, as a user does, but without a terminal.
func (w *workspace) run(t *testing.T, line string) result {
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", strings.ReplaceAll(line, "@W@/w", w.dir))
	shell.Dir, shell.Env = w.dir, w.env
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output strings.Builder
	shell.Stdout, shell.Stderr = &output, &output
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	shell.WaitDelay = 5 * time.Second
	err := shell.Run()
	code := shell.ProcessState.ExitCode()
	if ctx.Err() != nil {
		code = 124
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && ctx.Err() == nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v", line, err)
	}
	if shell.Process != nil {
		// This kills background jobs of the line.
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	}
	return result{code, w.plain(output.String())}
}

// plain replaces values that differ between two machines.
func (w *workspace) plain(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, w.dir, "@W@/w"), filepath.Dir(w.dir), "@W@")
}
