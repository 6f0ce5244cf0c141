package problem

import "errors"

// WarningOf converts an error to a warning.
func WarningOf(err error) Problem {
	if e, ok := errors.AsType[*Error](err); ok {
		bare := *e
		bare.Object = ""
		return Problem{Object: e.Object, Reason: e.Reason, Message: bare.Error(), Hint: e.Hint, Warning: true}
	}
	return Problem{Message: err.Error(), Warning: true}
}

// WithHint returns the error's message without the object, and its hint, on one line.
func WithHint(err error) string {
	p := WarningOf(err)
	p.Object = ""
	return p.String()
}
