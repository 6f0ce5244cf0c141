package embedded

import (
	"errors"
	"fmt"
	"strings"

	"github.com/podrun/podrun/internal/problem"
)

// Kind states whether a runtime belongs to podrun or to the host.
type Kind string

// The kinds of runtimes.
const (
	Own      Kind = "embedded" // the runtime of this package
	External Kind = "external" // another runtime on this host
)

// Values of --runtime; any other value is an endpoint.
const (
	Auto    = "auto"
	ByFlag  = "embedded"
	schema  = 1
	maxName = 64 // hex digits of a digest
)

// Use states for what purpose a command uses the runtime.
type Use int

// The values of Use. Each value includes the values before it.
const (
	Looks Use = iota // examines the host and starts nothing
	// reads the runtime's state; starts an embedded runtime only if it has run since the boot
	Reads
	Acts   // changes pods of the root directory
	Starts // starts an embedded runtime if necessary, and records the choice
)

// SocketState is the state of a known socket.
type SocketState string

// The states of sockets.
const (
	Absent  SocketState = ""
	Answers SocketState = "answers"
	// no CRI plugin responds: Docker's containerd packages disable the plugin
	NoCRI  SocketState = "no CRI"
	Stale  SocketState = "stale"  // no process listens
	Silent SocketState = "silent" // any other failure: no response, no permission
)

// Socket is one of the well-known sockets of runtimes.
type Socket struct {
	Endpoint string
	State    SocketState
	Program  string // containerd or crio
}

// Survey describes the runtimes on the host.
type Survey struct {
	Sockets []Socket
	// Installed maps names of runtimes to the paths of their programs.
	Installed map[string]string
}

// ChooseInput is the input of Choose.
type ChooseInput struct {
	Wanted  string  // auto, embedded or an endpoint
	Use     Use     // of the command
	Record  *Choice // nil if no choice is recorded
	Survey  *Survey // may be nil unless NeedsSurvey
	Archive bool    // the binary contains an archive
	Pods    []string
	// the commands that install a runtime, for the text of an error; may be empty
	Install string
}

// Decision is the choice of a runtime for a command.
type Decision struct {
	Kind Kind
	// endpoint of an external runtime
	Endpoint string
	// record the choice when the runtime has answered
	Record bool
	// a message to the user for the case that the choice is recorded; may be empty
	Notice string
}

// NeedsSurvey reports whether Choose requires a Survey.
func NeedsSurvey(wanted string, record *Choice) bool { return wanted == Auto && record == nil }

// Changes reports whether Choose requires the pods of the root directory. It does if the wanted
// runtime differs from the recorded one. If there are pods but no record, the pods belong to an
// external runtime, because the podrun releases that kept no record supported only external
// runtimes.
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

// Choose selects the runtime for a command. It is pure. If there is no runtime, the error is of
// kind Runtime. If pods of this root directory use another runtime, it is of kind Refused.
func Choose(in ChooseInput) (Decision, error) {
	if Changes(in.Wanted, in.Record) && len(in.Pods) > 0 && in.Use >= Acts {
		return Decision{}, split(in)
	}
	starts := in.Use == Starts
	fresh := starts && (in.Record == nil || Changes(in.Wanted, in.Record))
	switch {
	case in.Wanted == ByFlag:
		if !in.Archive && (in.Record == nil || in.Record.Kind != Own) {
			return Decision{}, &problem.Error{Kind: problem.Runtime, Object: "--runtime=embedded", Err: errors.New("this podrun binary has no embedded runtime"),
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

// split returns the error for a choice after which the pods of a root directory would use two
// different runtimes.
func split(in ChooseInput) error {
	now := "the container runtime of this host"
	switch {
	case in.Record != nil && in.Record.Kind == Own:
		now = "the embedded runtime"
	case in.Record != nil:
		now = "the container runtime at " + in.Record.Endpoint
	}
	// This does not name the source of Wanted: a flag, a variable or a setting may have specified the
	// endpoint.
	object := "container runtime " + in.Wanted
	if in.Wanted == ByFlag {
		object = "--runtime=" + ByFlag
	}
	return &problem.Error{Kind: problem.Refused, Object: object,
		Err:  fmt.Errorf("pods of this root directory use %s: %s", now, shownPods(in.Pods)),
		Hint: "to keep the runtime of these pods, unset --runtime, --container-runtime-endpoint and PODRUN_CONTAINER_RUNTIME_ENDPOINT; to change it, run 'podrun delete --all --all-namespaces' with the former runtime, then apply the pods again; or use another --root-dir"}
}

// shownPods lists the first few pods, and counts the others.
func shownPods(pods []string) string {
	shown := pods[:min(3, len(pods))]
	text := strings.Join(shown, ", ")
	if n := len(pods) - len(shown); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// discovered selects a runtime by means of the survey. If an installed runtime does not answer,
// discovered does not select another one. The installed runtime may start late at boot, and the
// pods would then use two different runtimes.
func discovered(in ChooseInput, starts bool) (Decision, error) {
	s := in.Survey
	if s == nil {
		s = &Survey{}
	}
	// programs that are running without CRI
	without := map[string]bool{}
	for _, socket := range s.Sockets {
		switch socket.State {
		case Answers:
			return Decision{Kind: External, Endpoint: socket.Endpoint, Record: starts, Notice: "using the container runtime at " + socket.Endpoint}, nil
		case Stale:
			if s.Installed[socket.Program] == "" {
				// A runtime that was uninstalled has left the socket behind.
				continue
			}
			return Decision{Kind: External, Endpoint: socket.Endpoint}, nil
		// Select it: the first call of the command reports why it does not respond.
		case Silent:
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
		hint := "start it ('systemctl start " + socket.Program + "')"
		if in.Archive {
			hint += ", or use podrun's embedded runtime with --runtime=embedded"
		} else {
			hint += ", or set another socket with --container-runtime-endpoint"
		}
		return Decision{}, &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime is running: %s is installed, and %s does not exist", path, socket.Endpoint), Hint: hint}
	}
	if in.Archive && len(in.Pods) > 0 {
		return Decision{}, &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime is running, and the runtime of existing pods is not recorded: %s", shownPods(in.Pods)),
			Hint: "start the runtime of these pods, or set its socket with --runtime"}
	}
	if in.Archive {
		return Decision{Kind: Own, Record: starts, Notice: "using the embedded container runtime"}, nil
	}
	return Decision{}, noRuntime(s, in.Install)
}

// noRuntime returns the error for a host without a runtime. The argument install contains the
// commands that install one.
func noRuntime(s *Survey, install string) error {
	var sockets []string
	for _, socket := range s.Sockets {
		if socket.State == NoCRI {
			return &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime found: %s does not serve CRI", socket.Endpoint),
				Hint: "enable the CRI plugin of containerd (disabled_plugins in /etc/containerd/config.toml), or use podrun-bundle, which contains a runtime"}
		}
		sockets = append(sockets, socket.Endpoint)
	}
	if install == "" {
		install = "install containerd and start it"
	} else {
		install = "install one: " + install
	}
	return &problem.Error{Kind: problem.Runtime, Err: fmt.Errorf("no container runtime found: %s do not exist", strings.Join(sockets, " and ")),
		Hint: install + "; or use podrun-bundle, which contains a runtime, or another socket with --container-runtime-endpoint; run 'podrun doctor' to check the host"}
}
