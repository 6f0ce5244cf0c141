package systemd

import (
	"fmt"
	"strconv"
	"strings"
)

// State is the state of podrun.service as systemd reports it. The values have systemd's format
// (systemctl(1)); fields may be empty. It marshals to stable JSON.
type State struct {
	Unit     string `json:"unit"`
	Load     string `json:"load"`               // loaded, not-found, masked…
	Active   string `json:"active"`             // active, inactive, failed, activating…
	Sub      string `json:"sub"`                // running, dead, auto-restart…
	Enabled  string `json:"enabled,omitempty"`  // enabled, disabled…
	File     string `json:"file,omitempty"`     // path of the unit
	Since    string `json:"since,omitempty"`    // time at which the unit became active, in systemd's format
	MainPID  int    `json:"mainPID,omitempty"`  // 0 means no process
	Result   string `json:"result,omitempty"`   // success, exit-code, watchdog…
	ExitCode int    `json:"exitCode,omitempty"` // exit code of the last process that exited
	// number of restarts by systemd since the unit was started
	Restarts int    `json:"restarts"`
	Status   string `json:"status,omitempty"` // the last status that the service reported
}

// fields are the systemd properties in State.
var fields = []struct {
	name string
	set  func(*State, string)
}{
	{"LoadState", func(s *State, v string) { s.Load = v }},
	{"ActiveState", func(s *State, v string) { s.Active = v }},
	{"SubState", func(s *State, v string) { s.Sub = v }},
	{"UnitFileState", func(s *State, v string) { s.Enabled = v }},
	{"FragmentPath", func(s *State, v string) { s.File = v }},
	{"ActiveEnterTimestamp", func(s *State, v string) { s.Since = v }},
	{"MainPID", func(s *State, v string) { s.MainPID = number(v) }},
	{"Result", func(s *State, v string) { s.Result = v }},
	{"ExecMainStatus", func(s *State, v string) { s.ExitCode = number(v) }},
	{"NRestarts", func(s *State, v string) { s.Restarts = number(v) }},
	{"StatusText", func(s *State, v string) { s.Status = v }},
}

// properties lists the properties for `systemctl show`.
func properties() string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return strings.Join(names, ",")
}

// parseState parses the output of `systemctl show`: NAME=VALUE lines, in any order. Older
// systemd versions omit properties that they do not support.
func parseState(out []byte) State {
	s := State{Unit: UnitName}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		for _, f := range fields {
			if f.name == name {
				f.set(&s, value)
			}
		}
	}
	return s
}

// number returns 0 for text that is not a number, such as "[not set]".
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// String formats the state for users: a summary line, then one line per property.
func (s State) String() string {
	if s.Load == "not-found" {
		return fmt.Sprintf("%s: not installed\n", s.Unit)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (%s)", s.Unit, s.Active, s.Sub)
	for _, word := range []string{s.Enabled, s.Load} {
		if word != "" && word != "loaded" && !strings.HasSuffix(b.String(), word) {
			b.WriteString(", " + word)
		}
	}
	b.WriteString("\n")
	line := func(name, value string) {
		if value != "" && value != "0" {
			fmt.Fprintf(&b, "  %-10s %s\n", name, value)
		}
	}
	line("since", s.Since)
	line("process", strconv.Itoa(s.MainPID))
	line("status", s.Status)
	line("restarts", strconv.Itoa(s.Restarts))
	if s.Result != "success" {
		line("result", s.Result)
		line("exit code", strconv.Itoa(s.ExitCode))
	}
	line("unit file", s.File)
	return b.String()
}
