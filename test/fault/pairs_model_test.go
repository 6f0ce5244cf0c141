package fault

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// check describes the problem with the exit codes of the commands or with the final state of the
// pod. It returns "" if there is none.
func (v pairVerdict) check(h *host, harmed time.Time) string {
	var wants []string
	for i, m := range []member{v.first, v.second} {
		end := v.ends[i]
		if text := v.wrongEnd(i); text != "" {
			return fmt.Sprintf("%s: %s", m.name, text)
		}
		if end.code == 0 && m.goal != "" {
			wants = append(wants, m.goal)
		}
		if (end.code == 0 || v.served) && (m.name == "start" || m.name == "restart") && []member{v.second, v.first}[i].name == "run" {
			// The command started the pod of run, which terminates. If the command failed after it had recreated the
			// pod, podrun serve may have taken over the pod from it.
			wants = append(wants, "job runs", "stopped")
		}
	}
	state := h.state()
	if strings.HasPrefix(state, "two ") {
		return state
	}
	if len(wants) == 0 || v.actsLater(0, harmed) || v.actsLater(1, harmed) {
		return ""
	}
	if !slices.ContainsFunc(wants, func(want string) bool { return state == want || want == "stopped" && state == "gone" }) {
		return fmt.Sprintf("the pod is %s, want one of %q", state, wants)
	}
	return ""
}

// actsLater reports whether a failed command may have changed the result of the other command
// after that command had succeeded. Only commands that stop pods affect a running pod.
func (v pairVerdict) actsLater(i int, harmed time.Time) bool {
	failed, done := []member{v.first, v.second}[i], []member{v.first, v.second}[1-i]
	end := v.ends[1-i].at
	switch {
	case v.ends[i].code == 0, v.ends[1-i].code != 0, v.ends[i].at.Before(end):
		return false
	case v.victim == i && v.harm == killed && harmed.Before(end):
		return false
	}
	return failed.ends || failed.goal == "runs" && done.goal != "runs"
}

// conflicts are the parts of error messages that report that another command has changed the pod.
var conflicts = []string{"was deleted by", "was stopped by", "was changed by", "its removal by", "its checkpoint was not found", "not found", "has ended", "it has just exited", "is in CONTAINER_EXITED state", "timed out after"}

// wrongEnd describes the problem with a command's exit.
func (v pairVerdict) wrongEnd(i int) string {
	end := v.ends[i]
	switch {
	case end.took > pairLimit+afterwards:
		return fmt.Sprintf("it took %v", end.took)
	case end.code == 124 && v.harm != frozen && v.victim != i && []member{v.first, v.second}[i].name != "wait":
		return "nothing explains the timeout"
	case end.code == 0, v.victim == i && v.harm == killed && end.code == -1:
		return ""
	case v.victim == i && (v.harm == frozen || v.harm == overdue) && strings.Contains(end.err, "the input did not end within --timeout"):
		return ""
	// the signal arrived before the command had installed its signal handler
	case v.victim == i && v.harm == interrupted && (end.code == 130 || end.signal == syscall.SIGINT):
		return ""
	case end.code < 0:
		return "a signal ended it: " + end.signal.String()
	case !names(end.err) && !strings.Contains(end.err, "podrun: pod web: not found") && !strings.Contains(end.err, "podrun: node: wait for ") || !slices.ContainsFunc(conflicts, func(text string) bool { return strings.Contains(end.err, text) }):
		return fmt.Sprintf("code %d without a conflict", end.code)
	}
	return ""
}

// state returns the state of the pod as determined independently of podrun: runs, job runs,
// stopped, gone or half. If an object exists twice, it returns "two …".
func (h *host) state() string {
	if h.runs() == nil {
		return "runs"
	}
	ready := 0
	for _, s := range h.rt.Sandboxes() {
		if s.Ready {
			ready++
		}
	}
	running := 0 // number of running containers among app and job
	for _, c := range h.running() {
		if c.Name != "early" {
			running++
		}
	}
	switch {
	case ready > 1:
		return "two ready sandboxes"
	case running > 1:
		return "two running containers"
	case len(h.rt.Sandboxes()) == 0:
		return "gone"
	case running == 1 && h.runsContainer("job"):
		return "job runs"
	case len(h.running()) == 0:
		return "stopped"
	}
	return "half"
}

func (v pairVerdict) log(t *testing.T) {
	for what, text := range map[string]string{"violation": v.violation, "did not converge": v.diverged, "trouble": v.trouble} {
		if text != "" {
			t.Errorf("%s: %s: %s\n\tfirst: code %d after %v: %s\n\tsecond: code %d after %v: %s", v, what, text, v.ends[0].code, v.ends[0].took, last(v.ends[0].err),
				v.ends[1].code, v.ends[1].took, last(v.ends[1].err))
		}
	}
}

// reportPairs prints the counts that docs/reliability.md quotes.
func reportPairs(all int, verdicts []pairVerdict) {
	var b strings.Builder
	fmt.Fprintf(&b, "pairs of processes: %d interleavings of %d\n%-20s %8s %8s %12s %10s  codes of the victim, of the other\n", len(verdicts), all, "", "tried", "reached", "violations", "diverged")
	for _, k := range harms {
		var tried, reached, violations, diverged int
		codes := [2]map[int]int{{}, {}}
		for _, v := range verdicts {
			if v.harm != k {
				continue
			}
			tried++
			for count, is := range map[*int]bool{&reached: v.reached, &violations: v.violation != "", &diverged: v.diverged != ""} {
				if is {
					*count++
				}
			}
			codes[0][v.ends[v.victim].code]++
			codes[1][v.ends[1-v.victim].code]++
		}
		fmt.Fprintf(&b, "%-20s %8d %8d %12d %10d  %v, %v\n", k, tried, reached, violations, diverged, codes[0], codes[1])
	}
	fmt.Println(b.String())
}
