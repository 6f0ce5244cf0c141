package problem

// UsageError wraps err in a usage error with the given hint.
func UsageError(err error, hint string) error {
	return &Error{Kind: Usage, Err: err, Hint: hint}
}
