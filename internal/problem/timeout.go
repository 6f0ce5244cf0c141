package problem

import (
	"fmt"
	"time"
)

// TimeoutError is the cause of a context that ended because of --timeout or another time limit
// of the command.
type TimeoutError struct{ After time.Duration }

// Error returns a message that contains the duration of the time limit.
func (e TimeoutError) Error() string { return fmt.Sprintf("timed out after %s", e.After) }
