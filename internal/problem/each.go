package problem

// Each calls do with each of several joined errors.
func Each(err error, do func(error)) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		do(err)
		return
	}
	for _, e := range joined.Unwrap() {
		Each(e, do)
	}
}
