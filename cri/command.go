package cri

import "strings"

// CommandFailure returns why a container's command could not be run, in the words of
// runc or crun, and whether it was not found; ok is false for any other failure to start
// a container. CRI has no code for it: runtimes pass on what their OCI runtime printed.
func CommandFailure(err error) (why string, absent, ok bool) {
	if err == nil {
		return "", false, false
	}
	text := err.Error()
	// runc names the command, in the first form, and its directory, a mount or a file
	// of its own in others; crun names the command in the second.
	for _, begin := range []string{`exec: "`, "executable file `"} {
		if at := strings.LastIndex(text, begin); at >= 0 {
			why = strings.TrimSuffix(strings.TrimSpace(text[at:]), ": unknown")
			return why, CommandAbsent(why), true
		}
	}
	return "", false, false
}

// CommandAbsent reports whether why a command could not be run is that it was not found:
// the first two are runc's words, and the last crun's.
func CommandAbsent(why string) bool {
	for _, absent := range []string{"executable file not found", "no such file or directory", "No such file or directory"} {
		if strings.Contains(why, absent) {
			return true
		}
	}
	return false
}
