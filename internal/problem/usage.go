package problem

import "errors"

// UsageError wraps err in a usage error with the given hint.
func UsageError(err error, hint string) error {
	return &Error{Kind: Usage, Err: err, Hint: hint}
}

// In adds an object to an error that names none.
func In(object string, err error) error {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil || ok && (e.Object != "" || len(e.Problems) > 0):
		return err
	case ok:
		return &Error{Kind: e.Kind, Object: object, Err: e.Err, Hint: e.Hint}
	}
	return &Error{Kind: Failed, Object: object, Err: err}
}
