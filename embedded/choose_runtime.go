package embedded

import (
	"errors"
	"fmt"
	"strings"

	"github.com/podrun/podrun/internal/problem"
)

// Kind is whose a runtime is.
type Kind string

// The kinds of runtimes.
const (
	Own      Kind = "embedded" // the one of this package
	External Kind = "external" // another one of this host
)

// Values of --runtime; any other is an endpoint.
const (
	Auto    = "auto"
	ByFlag  = "embedded"
	schema  = 1
	maxName = 64 // hex digits of a digest
)

// Use is what a command wants of the runtime.
type Use int

// The uses, each of which includes those before it.
const (
	Looks  Use = iota // examines the host: starts nothing
	Reads             // shows something; an embedded runtime that was not started since boot stays so
	Acts              // changes pods of the root directory
	Starts            // begins to use a runtime: starts an embedded one, and records the choice
)

// SocketState is how a known socket answers.
type SocketState string

// The states of sockets.
const (
	Absent  SocketState = ""
	Answers SocketState = "answers"
	NoCRI   SocketState = "no CRI" // containerd of Docker's packages, which disable the CRI
	Stale   SocketState = "stale"  // no process listens
	Silent  SocketState = "silent" // anything else: no answer, no permission
)

// Socket is a socket that runtimes usually have.
type Socket struct {
	Endpoint string
	State    SocketState
	Program  string // containerd or crio
}

// Survey is what was found on the host.
type Survey struct {
	Sockets []Socket
	// Installed are the paths of runtimes' programs, by name.
	Installed map[string]string
}

// ChooseInput is the input of Choose.
type ChooseInput struct {
	Wanted  string  // auto, embedded or an endpoint
	Use     Use     // of the command
	Record  *Choice // nil for none
	Survey  *Survey // may be nil unless NeedsSurvey
	Archive bool    // the binary has one
	Pods    []string
	Install string // the commands that install a runtime, for an error; may be empty
}

// Decision is which runtime a command uses.
type Decision struct {
	Kind     Kind
	Endpoint string // of an external runtime
	Record   bool   // the choice is to be recorded once the runtime has answered
	Notice   string // the message to the user when it is; empty for none
}

// NeedsSurvey reports whether Choose needs to know what is on the host.
func NeedsSurvey(wanted string, record *Choice) bool { return wanted == Auto && record == nil }

// Changes reports whether Choose needs to know the pods of the root directory: what is
// wanted is not what is recorded. Pods without a record are of an external runtime, for
// a podrun that knew no other made them.
func Changes(wanted string, record *Choice) bool {
	switch {
	case wanted == Auto:
		return false
	case record == nil:
		return wanted == ByFlag
	case wanted == ByFlag:
		return record.Kind != Own
	}
	return record.Kind != External || record.Endpoint != wanted
}

// Choose decides which runtime a command uses. It is pure. The error is of kind
// Runtime if there is none, and Refused if pods of this root directory are on another.
func Choose(in ChooseInput) (Decision, error) {
	if Changes(in.Wanted, in.Record) && len(in.Pods) > 0 && in.Use >= Acts {
		return Decision{}, split(in)
	}
	starts := in.Use == Starts
	fresh := starts && (in.Record == nil || Changes(in.Wanted, in.Record))
	switch {
	case in.Wanted == ByFlag:
		if !in.Archive && (in.Record == nil || in.Record.Kind != Own) {
			return Decision{}, &problem.Error{Kind: problem.Runtime, Object: "--runtime=embedded", Err: errors.New("this podrun has no embedded runtime"),
				Hint: "use podrun-bundle, or a runtime of this host"}
		}
		return Decision{Kind: Own, Record: fresh}, nil
	case in.Wanted != Auto:
		return Decision{Kind: External, Endpoint: in.Wanted, Record: fresh}, nil
	case in.Record != nil:
		return Decision{Kind: in.Record.Kind, Endpoint: in.Record.Endpoint}, nil
	}
	return discovered(in, starts)
}

// split refuses to spread the pods of a root directory over two runtimes.
func split(in ChooseInput) error {
	now := "the container runtime of this host"
	switch {
	case in.Record != nil && in.Record.Kind == Own:
		now = "the embedded runtime"
	case in.Record != nil:
		now = "the container runtime at " + in.Record.Endpoint
	}
	return &problem.Error{Kind: problem.Refused, Object: "--runtime=" + in.Wanted,
		Err:  fmt.Errorf("pods of this root directory use %s: %s", now, shownPods(in.Pods)),
		Hint: "to move, run 'podrun delete --all --all-namespaces' without --runtime first, then apply the pods again; or use another --root-dir"}
}

// shownPods names the first of many pods.
func shownPods(pods []string) string {
	shown := pods[:min(3, len(pods))]
	text := strings.Join(shown, ", ")
	if n := len(pods) - len(shown); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// discovered chooses by what is on the host. A runtime that is installed and does not
// answer is no reason to use another: it may be late at boot, and pods would be split
// over two.
func discovered(in ChooseInput, starts bool) (Decision, error) {
	s := in.Survey
	if s == nil {
		s = &Survey{}
	}
	without := map[string]bool{} // programs that run, and serve no CRI
	for _, socket := range s.Sockets {
		switch socket.State {
		case Answers:
			return Decision{Kind: External, Endpoint: socket.Endpoint, Record: starts, Notice: "using the container runtime at " + socket.Endpoint}, nil
		case Stale:
			if s.Installed[socket.Program] == "" {
				continue // left by a runtime that was uninstalled
			}
			return Decision{Kind: External, Endpoint: socket.Endpoint}, nil
		case Silent: // the command's own call finds out why
			return Decision{Kind: External, Endpoint: socket.Endpoint}, nil
		case NoCRI:
			without[socket.Program] = true
		}
	}
	for _, socket := range s.Sockets {
		path := s.Installed[socket.Program]
		if path == "" || without[socket.Program] {
			continue
		}
		hint := "start it"
		if in.Archive {
			hint += ", or use podrun's own runtime by --runtime=embedded"
		} else {
			hint += ", or set another socket with --container-runtime-endpoint"
		}
		return Decision{}, &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime is running: %s is installed, and %s does not exist", path, socket.Endpoint), Hint: hint}
	}
	if in.Archive && len(in.Pods) > 0 {
		return Decision{}, &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime is running, and there are pods of one that is not recorded: %s", shownPods(in.Pods)),
			Hint: "start it, or set its socket with --runtime"}
	}
	if in.Archive {
		return Decision{Kind: Own, Record: starts, Notice: "using the embedded container runtime"}, nil
	}
	return Decision{}, noRuntime(s, in.Install)
}

// noRuntime is the error of a host without a runtime, which these commands install.
func noRuntime(s *Survey, install string) error {
	var sockets []string
	for _, socket := range s.Sockets {
		if socket.State == NoCRI {
			return &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime found: %s serves no CRI", socket.Endpoint),
				Hint: "enable the CRI plugin of containerd (disabled_plugins in /etc/containerd/config.toml), or use podrun-bundle, which has a runtime of its own"}
		}
		sockets = append(sockets, socket.Endpoint)
	}
	if install == "" {
		install = "install containerd and start it"
	} else {
		install = "install one: " + install
	}
	return &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime found: %s do not exist", strings.Join(sockets, " and ")),
		Hint: install + "; 'podrun doctor' checks the host; podrun-bundle has a runtime of its own; --container-runtime-endpoint sets another socket"}
}
