package cli

import (
	"fmt"
)

// ExitStatus is an error that the command has already reported; podrun uses only its exit code.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
