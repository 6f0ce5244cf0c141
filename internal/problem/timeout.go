package problem

import (
	"fmt"
	"time"
)

// TimeoutError is the cause of a context that --timeout, or another time limit of
// the command, canceled.
type TimeoutError struct{ After time.Duration }

// Error says after how long.
func (e TimeoutError) Error() string { return fmt.Sprintf("timed out after %s", e.After) }
