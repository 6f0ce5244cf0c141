package cri

import (
	"bytes"
	"io"
	"strings"
)

// maxRefusal limits how many bytes of a command's output refusal holds back.
const maxRefusal = 8 << 10

// refusal detects that the runtime did not start a command. In this case, the runtime writes an error in place of
// the command's output. CRI-O connects the streams to its OCI runtime, which prints the reason as one line and
// exits with its own code, like the command (internal/oci/runtime_oci.go, ExecContainer). refusal holds the line
// back until it is certain that nothing follows it.
type refusal struct {
	to   io.Writer
	held []byte
	// whether the output comes from the command, so that refusal passes it on
	passing bool
}

// refusalBegins are the possible beginnings of the line that an OCI runtime prints when it does not start a command.
// If the first write is shorter, refusal passes it on immediately, because the OCI runtime writes the line with one
// write, and a prompt must not be delayed.
var refusalBegins = []string{`time="`, "\x1b[31mERRO\x1b[0m[", "ERRO[", "executable file `", "open executable: "}

// watch returns the streams of a command, with a replacement for the stream to which the OCI
// runtime would print: stderr, or stdout on a terminal.
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
	if r.possible() {
		return len(p), nil
	}
	return len(p), r.pass()
}

// possible reports whether the output that was held back may be a refusal: it must be one line,
// complete or incomplete.
func (r *refusal) possible() bool {
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

// pass writes the output that was held back, and passes on all later output.
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

// result returns the exit code of a command. The argument code is the exit code that the
// runtime reported. If the runtime did not start the command, result returns an *ExecError.
// runc exits with 255. crun exits with a code that other commands use too, so crun's line must
// also name the command.
func (r *refusal) result(code int, command []string) (int, error) {
	if why, printed := printedReason(string(r.held)); printed && code != 0 && len(command) > 0 {
		named := strings.Contains(why, "executable file `"+command[0]+"`") || strings.HasPrefix(why, "open executable: ")
		if code == 255 || named {
			return 0, &ExecError{Message: "command error: " + string(r.held)}
		}
	}
	return code, r.pass()
}
