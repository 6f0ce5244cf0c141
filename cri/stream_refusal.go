package cri

import (
	"bytes"
	"io"
	"strings"
)

// maxRefusal bounds how much of a command's output is held back, in bytes.
const maxRefusal = 8 << 10

// refusal recognizes that a command was not started by what the runtime sends in place
// of its output. CRI-O connects the streams to its OCI runtime, which prints the reason
// as one line and exits with its own code, as if it were the command's
// (internal/oci/runtime_oci.go, ExecContainer). The line is held back until it is clear
// that nothing follows it.
type refusal struct {
	to      io.Writer
	held    []byte
	passing bool // it is the command's own output
}

// refusalBegins are the beginnings of such a line. A write that has less of it is passed
// on: the line comes in one piece, and a prompt must not be held back.
var refusalBegins = []string{`time="`, "\x1b[31mERRO\x1b[0m[", "ERRO[", "executable file `", "open executable: "}

// watch returns the streams of a command with the one watched on which the runtime
// would print; on a terminal that is the only one.
func (r *refusal) watch(s Streams) Streams {
	if s.TTY {
		r.to, s.Out = s.Out, r
	} else {
		r.to, s.Err = s.Err, r
	}
	return s
}

// Write implements io.Writer.
func (r *refusal) Write(p []byte) (int, error) {
	if r.passing {
		return r.to.Write(p)
	}
	r.held = append(r.held, p...)
	if r.may() {
		return len(p), nil
	}
	return len(p), r.pass()
}

// may reports whether what is held can be a refusal: one line, whole or not yet.
func (r *refusal) may() bool {
	line, rest, _ := bytes.Cut(r.held, []byte("\n"))
	if len(rest) > 0 || len(line) > maxRefusal {
		return false
	}
	for _, begin := range refusalBegins {
		if bytes.HasPrefix(line, []byte(begin)) {
			return true
		}
	}
	return false
}

// pass writes what was held back, and from then on everything.
func (r *refusal) pass() error {
	r.passing = true
	held := r.held
	r.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := r.to.Write(held)
	return err
}

// result is how a command ended, whose exit code the runtime says is code: the error is
// an *ExecError if it was not started. runc exits with 255, crun with a code that other
// commands use, too, so that its line must name the command.
func (r *refusal) result(code int, command []string) (int, error) {
	if why, printed := printedReason(string(r.held)); printed && code != 0 && len(command) > 0 {
		named := strings.Contains(why, "executable file `"+command[0]+"`") || strings.HasPrefix(why, "open executable: ")
		if code == 255 || named {
			return 0, &ExecError{Message: "command error: " + string(r.held)}
		}
	}
	return code, r.pass()
}
