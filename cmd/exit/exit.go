// Package exit has the table of exit codes, and maps errors to codes, reasons and hints.
package exit

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
	OK       = 0
	Failed   = 1
	Usage    = 120
	Manifest = 121
	Refused  = 122
	Image    = 123
	Deadline = 124
	Runtime  = 125

	NotExecutable = 126
	NotFound      = 127

	HUP  = 129
	INT  = 130
	QUIT = 131
	PIPE = 141
	TERM = 143
)

// Row is one line of the table of exit codes. The help, docs/exit-codes.md and all commands
// use this table. The table is sorted by severity: if the pods of a command end with different
// codes, the command exits with the last of these codes in the table.
type Row struct {
	code int
	kind problem.Kind // empty if no problem.Error causes this code
	text string
}

var Table = []Row{
	{OK, "", "success"},
	{Failed, problem.Failed, "the pod failed, but not because of a container's exit code: a hook failed, restartPolicy does not allow podrun to restart an init container, or the pod had already failed"},
	{NotExecutable, problem.NotExecutable, "the command of a container or of exec cannot be executed"},
	{NotFound, problem.NotFound, "the command of a container or of exec was not found"},
	{Usage, problem.Usage, "the command line is wrong"},
	{Manifest, problem.Manifest, "the manifest is invalid, missing or unreadable"},
	{Refused, problem.Refused, "this host refuses the pod: ports, resources, placement or security policy"},
	{Image, problem.Image, "an image is not available"},
	{Deadline, problem.Deadline, "the command's --timeout expired"},
	{Runtime, problem.Runtime, "the container runtime, the host or podrun itself failed"},
	{HUP, "", "ended by SIGHUP"},
	{INT, "", "ended by SIGINT"},
	{QUIT, "", "ended by SIGQUIT"},
	{PIPE, "", "ended, because the reader of standard output exited (SIGPIPE)"},
	{TERM, "", "ended by SIGTERM"},
}

// SignalError is the cause of a context that a signal canceled.
type SignalError struct{ Signal syscall.Signal }

// Error returns the message with the name of the signal.
func (e SignalError) Error() string {
	if e.Signal == syscall.SIGPIPE {
		return "ended, because the reader of standard output exited"
	}
	return "ended by " + SignalName(e.Signal)
}

func SignalName(s syscall.Signal) string {
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

// Code returns the exit code of an error; for joined errors, the most severe.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if sig, ok := errors.AsType[SignalError](err); ok {
		return 128 + int(sig.Signal)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		worst := OK
		for _, e := range joined.Unwrap() {
			worst = Worse(worst, Code(e))
		}
		return worst
	}
	_, expired := errors.AsType[problem.TimeoutError](err)
	// The cause of a failure is the time limit, whatever the step that it interrupted.
	if e, ok := errors.AsType[*problem.Error](err); ok && !problem.Exhausted(err) && !(expired && e.Kind == problem.Runtime) {
		for _, row := range Table {
			if row.kind == e.Kind && row.kind != "" {
				return row.code
			}
		}
	}
	if expired || errors.Is(err, context.DeadlineExceeded) {
		return Deadline
	}
	return Runtime
}

// Worse returns the code that is later in the table.
func Worse(a, b int) int {
	rank := func(code int) int {
		for i, row := range Table {
			if row.code == code {
				return i
			}
		}
		return len(Table)
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// Reason returns the reason for the code in JSON summaries.
func Reason(code int) string {
	for _, row := range Table {
		if row.code == code && row.kind != "" {
			return string(row.kind)
		}
	}
	switch code {
	case OK:
		return "Success"
	case HUP, INT, QUIT, PIPE, TERM:
		return "Signal"
	}
	return "Container"
}

// ExitHelp is the text of `podrun help exit-codes`.
func ExitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes of podrun. Treat any other code as a failure.\n\n")
	for _, row := range Table {
		fmt.Fprintf(&b, "  %3d  %s\n", row.code, row.text)
	}
	b.WriteString(`
If the pods of a command end with different codes, the command exits with the code that
is last in this table. A container may also exit with 120 to 125. The last line on
stderr, and "reason" in the JSON summary, show whether the code is from podrun.
`)
	return b.String()
}
