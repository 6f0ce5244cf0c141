//go:build !faultpoints

package faultpoint

// At is a step between two changes of the host.
func At(string) {}

// Call is a call to another process: the steps before it, while it is worked on, and,
// when the returned function is called, after it.
func Call(string) (answered func()) { return nothing }

func nothing() {}
