package event

import (
	"fmt"
	"time"
)

// StopProgress is the reason of an event that reports what the stop of a container waits for. The kubelet has no
// such event. podrun prints it but does not store it.
const StopProgress = "StopProgress"

// StopState is the state of a stop.
type StopState string

// The states of a stop.
const (
	StopRunsHook StopState = "preStop" // The container's preStop hook runs.
	StopWaits    StopState = "exit"    // The container has received its stop signal.
	StopEnded    StopState = "ended"   // The stop has ended, with or without success.
)

// Stop is the progress of the stop of one container.
type Stop struct {
	State   StopState     `json:"state"`
	Elapsed time.Duration `json:"elapsed,omitempty"`   // since the stop began; JSON number of nanoseconds
	Left    time.Duration `json:"graceLeft,omitempty"` // rest of the grace period; JSON number of nanoseconds
}

// String returns the progress as a text such as "waiting for the container to exit, up to 25s more".
func (s Stop) String() string {
	left := s.Left.Round(time.Second)
	switch {
	case s.State == StopEnded:
		return "ended"
	case s.State == StopRunsHook:
		return fmt.Sprintf("waiting for the preStop hook, up to %s more", left)
	case left <= 0:
		return "waiting for the runtime to kill the container"
	}
	return fmt.Sprintf("waiting for the container to exit, up to %s more", left)
}
