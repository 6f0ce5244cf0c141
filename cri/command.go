package cri

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// CommandFailure explains why a container's command, or a command in a container, could not be
// started. It returns the reason that runc or crun printed, and whether the program was not
// found. For any other failure, ok is false. The CRI has no error code for this, but the
// runtime's error contains what the OCI runtime printed. In CRI-O's error, that is a log line.
func CommandFailure(err error) (why string, absent, ok bool) {
	if err == nil {
		return "", false, false
	}
	text := err.Error()
	if said, printed := printedReason(text); printed {
		text = said
	}
	// The first form is runc's, which it also prints if the failure concerns the command's
	// directory, a mount or one of runc's own files. The second form is crun's.
	for _, begin := range []string{`exec: "`, "executable file `"} {
		if at := strings.LastIndex(text, begin); at >= 0 {
			why = withoutFrame(text[at:])
			return why, CommandAbsent(why), true
		}
	}
	return "", false, false
}

// CommandAbsent reports whether a reason means that the program was not found. The first two
// phrases are runc's; the last one is crun's.
func CommandAbsent(why string) bool {
	for _, absent := range []string{"executable file not found", "no such file or directory", "No such file or directory"} {
		if strings.Contains(why, absent) {
			return true
		}
	}
	return false
}

// ExecFailure is like CommandFailure, but for a command in a running container. It also recognizes
// failures that the command did not cause, such as a missing working directory: it accepts any
// failure before the command started. Absent is true if the program was not found.
func ExecFailure(err error) (why string, absent, ok bool) {
	if err == nil {
		return "", false, false
	}
	if why, absent, ok = CommandFailure(err); ok {
		return why, absent, ok
	}
	_, why, ok = strings.Cut(err.Error(), "OCI runtime exec failed: ") // containerd
	if !ok {
		_, why, ok = strings.Cut(err.Error(), "command error: ") // CRI-O's ExecSync
		if ok {
			why, ok = printedReason(why)
		}
	}
	if !ok {
		return "", false, false
	}
	why = withoutFrame(strings.TrimPrefix(why, "exec failed: "))
	why = strings.TrimPrefix(why, "unable to start container process: ")
	return why, CommandAbsent(why), true
}

// withoutFrame removes the text that containerd and CRI-O append to the OCI runtime's message.
func withoutFrame(why string) string {
	why, _, _ = strings.Cut(why, ", stdout: ")
	return strings.TrimSuffix(strings.TrimSpace(why), ": unknown")
}

// printed matches the lines that OCI runtimes print when they cannot start a program: runc's
// log format, in a file and on a terminal, and the text of crun.
var printed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?:time=\"[^\"]*\" level=(?:error|fatal) msg=(\"(?:[^\"\\\\]|\\\\.)*\")|(?:\x1b\\[\\d+m)?ERRO(?:\x1b\\[0m)?\\[\\d+\\] ([^\r\n]*)|((?:executable file `|open executable: )[^\r\n]*))")
})

// printedReason finds the OCI runtime's log line in a text and returns its message.
func printedReason(text string) (why string, ok bool) {
	m := printed().FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	if quoted, err := strconv.Unquote(m[1]); err == nil {
		return quoted, true
	}
	return m[2] + m[3], true
}

// notRunningTexts are substrings of the errors with which a runtime refuses to run a command in a
// container that is not running, or that no longer exists.
var notRunningTexts = []string{
	"container is in CONTAINER_",         // containerd
	"no running task found",              // containerd, if the container has just exited
	"cannot exec in a stopped container", // runc
	"cannot exec in a stopped state",     // containerd's shim, pkg/process/init_state.go
	"cannot exec in a deleted state",
	`": task `,                            // containerd: failed to create exec "ID": task ID not found
	"container not created: not found",    // containerd's shim, if the task has just been deleted
	"container is not created or running", // CRI-O, server/container_exec.go
	"could not find container ",           // CRI-O
}

// NotRunning reports whether a runtime refused to run a command because the command's container
// is not running.
func NotRunning(err error) bool { return mentions(err, notRunningTexts) }

// ProcessLost reports whether runc could not enter the namespaces of a container's process. The most
// likely cause is that the process was killed at that moment. The runtime may not have recorded the exit yet.
func ProcessLost(err error) bool {
	return mentions(err, []string{"setns process", "namespace path: lstat /proc/"})
}
