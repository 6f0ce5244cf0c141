package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/podrun/podrun/internal/problem"
)

// Exit codes. A container may also exit with 120 to 125, as timeout(1) and xargs(1)
// do: the last line on stderr and "reason" in the JSON summary distinguish them.
const (
	ExitOK       = 0
	ExitFailed   = 1
	ExitUsage    = 120
	ExitManifest = 121
	ExitRefused  = 122
	ExitImage    = 123
	ExitDeadline = 124
	ExitRuntime  = 125

	ExitNotExecutable = 126
	ExitNotFound      = 127

	ExitHUP  = 129
	ExitINT  = 130
	ExitQUIT = 131
	ExitPIPE = 141
	ExitTERM = 143
)

// exitRow is one line of the table of exit codes. The help, docs/exit-codes.md and all commands
// use this table. The table is sorted by severity: if the pods of a command end with different
// codes, the command exits with the last of these codes in the table.
type exitRow struct {
	code int
	kind problem.Kind // empty if no problem.Error causes this code
	text string
}

var exitTable = []exitRow{
	{ExitOK, "", "success"},
	{ExitFailed, problem.Failed, "the pod failed, but not because of a container's exit code: a hook failed, restartPolicy does not allow podrun to restart an init container, or the pod had already failed"},
	{ExitNotExecutable, problem.NotExecutable, "the command of a container or of exec cannot be executed"},
	{ExitNotFound, problem.NotFound, "the command of a container or of exec was not found"},
	{ExitUsage, problem.Usage, "the command line is wrong"},
	{ExitManifest, problem.Manifest, "the manifest is invalid, missing or unreadable"},
	{ExitRefused, problem.Refused, "this host refuses the pod: ports, resources, placement or security policy"},
	{ExitImage, problem.Image, "an image is not available"},
	{ExitDeadline, problem.Deadline, "the command's --timeout expired"},
	{ExitRuntime, problem.Runtime, "the container runtime, the host or podrun itself failed"},
	{ExitHUP, "", "ended by SIGHUP"},
	{ExitINT, "", "ended by SIGINT"},
	{ExitQUIT, "", "ended by SIGQUIT"},
	{ExitPIPE, "", "ended, because the reader of standard output exited (SIGPIPE)"},
	{ExitTERM, "", "ended by SIGTERM"},
}

// SignalError is the cause of a context that a signal canceled.
type SignalError struct{ Signal syscall.Signal }

// Error returns the message with the name of the signal.
func (e SignalError) Error() string {
	if e.Signal == syscall.SIGPIPE {
		return "ended, because the reader of standard output exited"
	}
	return "ended by " + signalName(e.Signal)
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGQUIT:
		return "SIGQUIT"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return s.String()
}

// exitCode returns the exit code of an error; for joined errors, the most severe.
func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if sig, ok := errors.AsType[SignalError](err); ok {
		return 128 + int(sig.Signal)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		worst := ExitOK
		for _, e := range joined.Unwrap() {
			worst = worseCode(worst, exitCode(e))
		}
		return worst
	}
	_, expired := errors.AsType[problem.TimeoutError](err)
	// The cause of a failure is the time limit, whatever the step that it interrupted.
	if e, ok := errors.AsType[*problem.Error](err); ok && !problem.Exhausted(err) && !(expired && e.Kind == problem.Runtime) {
		for _, row := range exitTable {
			if row.kind == e.Kind && row.kind != "" {
				return row.code
			}
		}
	}
	if expired || errors.Is(err, context.DeadlineExceeded) {
		return ExitDeadline
	}
	return ExitRuntime
}

// worseCode returns the code that is later in the table.
func worseCode(a, b int) int {
	rank := func(code int) int {
		for i, row := range exitTable {
			if row.code == code {
				return i
			}
		}
		return len(exitTable)
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// exitReason returns the reason for the code in JSON summaries.
func exitReason(code int) string {
	for _, row := range exitTable {
		if row.code == code && row.kind != "" {
			return string(row.kind)
		}
	}
	switch code {
	case ExitOK:
		return "Success"
	case ExitHUP, ExitINT, ExitQUIT, ExitPIPE, ExitTERM:
		return "Signal"
	}
	return "Container"
}

// exitHelp is the text of `podrun help exit-codes`.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes of podrun. Treat any other code as a failure.\n\n")
	for _, row := range exitTable {
		fmt.Fprintf(&b, "  %3d  %s\n", row.code, row.text)
	}
	b.WriteString(`
If the pods of a command end with different codes, the command exits with the code that
is last in this table. A container may also exit with 120 to 125. The last line on
stderr, and "reason" in the JSON summary, show whether the code is from podrun.
`)
	return b.String()
}
