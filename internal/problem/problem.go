// Package problem defines the two types with which podrun reports failures. A Problem describes an
// error in a manifest or a problem of a host; a command reports all problems. An Error describes a
// step that failed.
package problem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"syscall"
)

// Kind is the category of a failure. It determines the exit code.
type Kind string

// The order of the kinds has no meaning. cmd/exit/exit.go maps each to an exit code.
const (
	Usage Kind = "Usage" // The command line is wrong.
	// The file is wrong: syntax, schema, validation, or a missing reference.
	Manifest Kind = "Manifest"
	// This host cannot run the pod, or its policy forbids it.
	Refused Kind = "Refused"
	// An image is not available.
	Image Kind = "Image"
	// The command's own --timeout has expired.
	Deadline Kind = "Deadline"
	// The pod failed, and no container has an exit code that explains it.
	Failed Kind = "Failed"
	// The runtime, the host or podrun itself failed.
	Runtime Kind = "Runtime"
	// The runtime could not execute the command of a container, or did not find it.
	NotExecutable Kind = "CommandNotExecutable"
	NotFound      Kind = "CommandNotFound"
)

// Problem is one problem of an object, or one problem of this host that concerns the object.
// All fields except Message may be empty.
type Problem struct {
	File    string `json:"file,omitempty"`   // as the user named it; "-" for stdin
	Line    int    `json:"line,omitempty"`   // line in File, counted from 1
	Object  string `json:"object,omitempty"` // such as "Pod default/web"
	Field   string `json:"field,omitempty"`  // such as spec.containers[0].image
	Reason  string `json:"reason,omitempty"` // CamelCase word for scripts, from the kubelet or the API (OutOfcpu, SysctlForbidden, FieldValueInvalid)
	Message string `json:"message"`          // one sentence without a final period
	Hint    string `json:"hint,omitempty"`   // how to fix it
	// Kind is set if it differs from the kind of the report. For example, admission may find an
	// invalid image name.
	Kind Kind `json:"kind,omitempty"`
	// podrun reports the problem, but does not refuse the pod because of it.
	Warning bool `json:"warning,omitempty"`
}

// String returns the problem as one line: file:line: object: field: message.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	for _, part := range []string{p.Object, p.Field} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// List is a list of problems, in the order of the input.
type List []Problem

// Errors returns the problems that are not warnings.
func (l List) Errors() List { return l.filter(false) }

// Warnings returns the warnings.
func (l List) Warnings() List { return l.filter(true) }

func (l List) filter(warning bool) List {
	var out List
	for _, p := range l {
		if p.Warning == warning {
			out = append(out, p)
		}
	}
	return out
}

// Sort sorts by file, then line. It is stable.
func (l List) Sort() {
	sort.SliceStable(l, func(i, j int) bool {
		if l[i].File != l[j].File {
			return l[i].File < l[j].File
		}
		return l[i].Line < l[j].Line
	})
}

// String returns the problems, one per line.
func (l List) String() string {
	lines := make([]string, len(l))
	for i, p := range l {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// ErrNotFound is the cause of an Error whose Object names a pod that does not exist.
var ErrNotFound = errors.New("not found")

// Error is the failure of a step. It contains the object, the operation and the cause. Err may be
// nil if Problems is set.
type Error struct {
	Kind     Kind
	Object   string // such as "pod default/web" or "container app"; may be empty
	Op       string // such as "create sandbox"; may be empty
	Reason   string // CamelCase word for scripts, as in Problem; may be empty
	Err      error
	Hint     string // how to fix it; may be empty
	Problems List   // set when the failure is a list of problems
}

// Error returns "object: op: cause". It omits the hint: cmd prints the hint on a separate line.
func (e *Error) Error() string {
	var parts []string
	for _, p := range []string{e.Object, e.Op} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	switch {
	case e.Err != nil:
		parts = append(parts, e.Err.Error())
	case len(e.Problems) > 0:
		parts = append(parts, e.Problems.String())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of returns the problems of an error: the list of problems that it contains, or the error
// itself as one problem. A problem without a reason gets the reason of the error. Of returns
// nil for nil.
func Of(err error) List {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Problems) == 0 {
		p := WarningOf(err)
		p.Warning = false
		return List{p}
	}
	out := slices.Clone(e.Problems)
	for i := range out {
		out[i].Reason = cmp.Or(out[i].Reason, e.Reason)
	}
	return out
}

// Exhausted reports whether an error means that this host has no file descriptors or memory left.
// In this case, the object of the failed operation, such as a file, is not the cause.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// Refuse returns the error for a list of problems. It returns nil if all of them are warnings.
// A problem without a kind gets the given one. The result joins one error per kind, in the
// order of the list.
func Refuse(kind Kind, l List) error {
	var kinds []Kind
	byKind := map[Kind]List{}
	for _, p := range l.Errors() {
		k := p.Kind
		if k == "" {
			k = kind
		}
		if byKind[k] == nil {
			kinds = append(kinds, k)
		}
		byKind[k] = append(byKind[k], p)
	}
	var errs []error
	for _, k := range kinds {
		errs = append(errs, &Error{Kind: k, Problems: byKind[k]})
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
