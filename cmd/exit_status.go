package cmd

import (
	"fmt"
)

// exitStatus is an error that the command has already reported; podrun uses only its exit code.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// eachError calls do with each of several joined errors.
func eachError(err error, do func(error)) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		do(err)
		return
	}
	for _, e := range joined.Unwrap() {
		eachError(e, do)
	}
}
