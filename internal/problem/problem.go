// Package problem defines the two types with which podrun reports failures: a Problem is
// data that describes what is wrong with a manifest or a host (a command reports all
// problems), an Error describes a failed step.
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

// Kind is the category of a failure, which determines the exit code.
type Kind string

// The kinds, in no order; cmd/exit.go maps each to an exit code.
const (
	Usage    Kind = "Usage"    // the command line
	Manifest Kind = "Manifest" // the file: syntax, schema, validation, a missing reference
	Refused  Kind = "Refused"  // this host cannot run the pod, or its policy forbids it
	Image    Kind = "Image"    // an image is not available
	Deadline Kind = "Deadline" // the command's own --timeout
	Failed   Kind = "Failed"   // the pod failed, and no container's exit code explains how
	Runtime  Kind = "Runtime"  // the runtime, the host or podrun itself
	// The command of a container could not be executed or was not found.
	NotExecutable Kind = "CommandNotExecutable"
	NotFound      Kind = "CommandNotFound"
)

// Problem is one problem of an object, or of this host with respect to the object. All
// fields except Message may be empty.
type Problem struct {
	File    string `json:"file,omitempty"`   // as the user named it; "-" for stdin
	Line    int    `json:"line,omitempty"`   // 1-based line in File
	Object  string `json:"object,omitempty"` // "Pod default/web"
	Field   string `json:"field,omitempty"`  // spec.containers[0].image
	Reason  string `json:"reason,omitempty"` // a CamelCase word for scripts, from the kubelet or the API (OutOfcpu, SysctlForbidden, FieldValueInvalid)
	Message string `json:"message"`          // one sentence, no final period
	Hint    string `json:"hint,omitempty"`   // how to fix it
	// Kind is set if it differs from the kind of the report: for example, an invalid image
	// name that is found during admission.
	Kind    Kind `json:"kind,omitempty"`
	Warning bool `json:"warning,omitempty"` // reported, but does not cause a refusal
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

// ErrNotFound is the cause if the pod of an Error's Object does not exist.
var ErrNotFound = errors.New("not found")

// Error is the failure of a step. It contains the object, the operation and the cause. Err
// may be nil if Problems is set.
type Error struct {
	Kind     Kind
	Object   string // "pod default/web", "container app"; may be empty
	Op       string // "create sandbox"; may be empty
	Reason   string // a CamelCase word for scripts, as in Problem; may be empty
	Err      error
	Hint     string // how to fix it; may be empty
	Problems List   // set when the failure is a list of problems
}

// Error returns "object: op: cause". It omits the hint, which cmd prints on a separate line.
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

// Of returns the problems of an error: its list, or the error itself as one problem. Problems
// without a reason get the reason of the error. Of returns nil for nil.
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

// Exhausted reports whether an error means that this host ran out of file descriptors or
// memory. The object of the failed operation, such as a file, is then not at fault.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// Refuse returns the error for a list of problems, or nil if all of them are warnings.
// Problems without a kind get the given one. It joins one error per kind, in the order of
// the list.
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
