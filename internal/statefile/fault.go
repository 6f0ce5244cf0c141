package statefile

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/podrun/podrun/internal/problem"
)

// Fault describes a state file that podrun cannot use. It is an error for operations on the object that
// the file belongs to, and a warning for all others.
type Fault struct {
	Path   string
	What   string // the content, such as "the names of Services"
	Scope  Scope
	State  State // Corrupt, Unreadable or Newer
	Action Action
	Err    error // the reason
}

// Error names the file, the problem and its effect.
func (f *Fault) Error() string {
	if f.What == "" {
		return f.reason()
	}
	return fmt.Sprintf("%s: %s", f.What, f.reason())
}

// reason names the file and the problem.
func (f *Fault) reason() string {
	err := f.Err
	// The path is already part of the text.
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == f.Path {
		err = e.Err
	}
	switch f.State {
	case Newer:
		return fmt.Sprintf("%s has %v", f.Path, err)
	case Unreadable:
		return fmt.Sprintf("%s cannot be read: %v", f.Path, err)
	}
	return fmt.Sprintf("%s is corrupt: %v", f.Path, err)
}

// Effect is what podrun does because of the fault.
func (f *Fault) Effect() string {
	switch f.Action {
	case Refuse:
		return "operations on the " + string(f.Scope) + " fail"
	case Partial:
		return string(Partial)
	}
	return "it " + string(f.Action)
}

// Warning returns the fault as a warning, with its effect.
func (f *Fault) Warning() problem.Problem {
	return problem.Problem{Object: f.What, Message: f.reason() + "; " + f.Effect(), Warning: true}
}

// Unwrap returns the reason.
func (f *Fault) Unwrap() error { return f.Err }

// IsCorrupt reports whether an error means that the content of a state file is lost.
func IsCorrupt(err error) bool { return stateOf(err) == Corrupt }

// IsNewer reports whether an error means that a newer podrun wrote a state file.
func IsNewer(err error) bool { return stateOf(err) == Newer }

// IsUnreadable reports whether an error means that a state file cannot be read, although its content
// may be intact.
func IsUnreadable(err error) bool { return stateOf(err) == Unreadable }

func stateOf(err error) State {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.State
	}
	return Intact
}
