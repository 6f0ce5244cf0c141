package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/junit"
	"github.com/podrun/podrun/internal/output"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// reportedOutput is the number of bytes that the report contains from the end of each
// container's log.
const reportedOutput = 64 << 10

// testReport is the file of -o junit=FILE: a report with the containers as test cases. A nil
// testReport does nothing.
type testReport struct {
	path  string
	began time.Time

	mu     sync.Mutex
	logs   map[containerKey]*output.Tail
	suites []junit.Suite // one for each pod that has ended
}

// openReport writes a report which states that the run did not end; close replaces it. Therefore,
// the report of an earlier run does not remain if podrun is killed, and podrun refuses an
// unwritable path before it starts the pod. openReport returns nil without -o junit.
func openReport(path string) (*testReport, error) {
	if path == "" {
		return nil, nil
	}
	t := &testReport{path: path, began: time.Now(), logs: map[containerKey]*output.Tail{}}
	if info, err := os.Lstat(t.path); err == nil && !info.Mode().IsRegular() {
		return nil, problem.UsageError(fmt.Errorf("-o junit=%s: podrun would replace this file, which is not a regular file", t.path), "name a file that does not exist, or an earlier report")
	}
	unfinished := &problem.Error{Kind: problem.Runtime, Err: errors.New("podrun was killed before the run ended")}
	if err := t.write([]junit.Suite{t.failedSuite(unfinished)}); err != nil {
		return nil, &problem.Error{
			Kind:   problem.Usage,
			Object: "-o junit=" + t.path,
			Err:    err,
			Hint:   "name a file in an existing directory that podrun can write to",
		}
	}
	return t, nil
}

// logOf returns the writers for the log of a container. The report contains the end of this
// log.
func (t *testReport) logOf(log run.Log, _ string) podlog.Output {
	if t == nil {
		return podlog.Output{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := containerKey{log.Pod.Namespace, log.Pod.Name, log.Container}
	if t.logs[key] == nil {
		t.logs[key] = &output.Tail{Limit: reportedOutput}
	}
	return podlog.Output{Stdout: t.logs[key], Stderr: t.logs[key]}
}

// end adds the pods, which have ended.
func (t *testReport) end(pods []endedPod) {
	if t == nil {
		return
	}
	for _, p := range pods {
		t.suites = append(t.suites, t.suite(p))
	}
}

// suite returns the suite of a pod.
func (t *testReport) suite(p endedPod) junit.Suite {
	s := t.newSuite(p.id.Namespace + "/" + p.id.Name)
	s.Properties = []junit.Property{{Name: "pod", Value: p.id.String()}}
	// CI servers take the part before the dot as a package.
	class := "podrun." + stableName(p.spec)
	outcomes, explained := p.containers()
	for _, o := range outcomes {
		c := junit.Case{Class: class, Name: o.name, Outcome: o.outcome, Type: o.reason, Message: o.message, Details: o.details}
		if !o.ended.StartedAt.IsZero() && !o.ended.FinishedAt.IsZero() {
			c.Time = o.ended.FinishedAt.Sub(o.ended.StartedAt)
		}
		if log := t.logs[containerKey{p.id.Namespace, p.id.Name, o.name}]; log != nil {
			text, cut := log.Lines()
			if cut {
				text = fmt.Sprintf("[only the last %d KiB]\n", reportedOutput>>10) + text
			}
			c.Output = text
		}
		s.Cases = append(s.Cases, c)
	}
	if p.err != nil && !explained {
		s.Cases = append(s.Cases, failedCase(class, "pod", p.err))
	}
	return s
}

// stableName returns the name of a pod without the suffix that generateName adds, because CI
// servers match the cases of several runs by their names.
func stableName(pod *corev1.Pod) string {
	if pod.GenerateName != "" && strings.HasPrefix(pod.Name, pod.GenerateName) {
		return strings.TrimRight(pod.GenerateName, "-.")
	}
	return pod.Name
}

func (t *testReport) newSuite(name string) junit.Suite {
	host, _ := os.Hostname() // optional
	return junit.Suite{Name: name, Host: host, Began: t.began, Time: time.Since(t.began)}
}

// failedSuite returns the suite of a command that failed before it ran a pod.
func (t *testReport) failedSuite(err error) junit.Suite {
	s := t.newSuite("podrun run")
	s.Cases = []junit.Case{failedCase("podrun", "run", err)}
	return s
}

// failedCase returns a test case for an error that does not belong to a container.
func failedCase(class, name string, err error) junit.Case {
	text := view.ShownText(err.Error())
	first, _, more := strings.Cut(text, "\n")
	c := junit.Case{Class: class, Name: name, Outcome: junit.Errored, Type: exit.Reason(exit.Code(err)), Message: first}
	if more {
		c.Details = text
	}
	if hint := exit.HintFor(err); hint != "" {
		c.Details = strings.TrimPrefix(c.Details+"\nhint: "+hint, "\n")
	}
	return c
}

// close writes the report of a command that has ended with err, and returns the command's error.
func (t *testReport) close(ctx context.Context, a *cli.App, err error) error {
	if t == nil {
		return err
	}
	if err != nil && len(t.suites) == 0 {
		cause := err
		if c := context.Cause(ctx); c != nil && errors.Is(err, context.Canceled) {
			cause = errors.Join(err, c)
		}
		t.suites = []junit.Suite{t.failedSuite(cause)}
	}
	werr := t.write(t.suites)
	if werr == nil {
		return err
	}
	werr = &problem.Error{Kind: problem.Runtime, Object: "-o junit=" + t.path, Err: werr}
	if err == nil {
		return werr
	}
	a.PrintErrors(werr) // the command's own error, which may be an exit code, takes precedence
	return err
}

func (t *testReport) write(suites []junit.Suite) error {
	data, err := junit.Report{Name: "podrun run", Time: time.Since(t.began), Suites: suites}.Marshal()
	if err != nil {
		return err
	}
	return hostfile.WriteUnsynced(t.path, data, 0o644)
}
