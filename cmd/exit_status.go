package cmd

import (
	"fmt"
)

// exitStatus is an error that the command has already reported; podrun uses only its exit code.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
