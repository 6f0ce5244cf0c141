package observe

import (
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/store"
)

// StopMark records that a pod was stopped and will not run until a command starts it.
type StopMark struct {
	// Why and Hint are for the error of a command that waits for the pod.
	Why, Hint string
	// Interrupted is true if the pod had not ended when a command stopped it.
	Interrupted bool
}

// interrupted is the third line of the mark if the stop interrupted the pod.
const interrupted = "interrupted"

// Bytes returns the content of the mark's file.
func (m StopMark) Bytes() []byte {
	text := m.Why + "\n" + m.Hint + "\n"
	if m.Interrupted {
		text += interrupted + "\n"
	}
	return []byte(text)
}

// ParseStopMark parses the content of the mark's file.
func ParseStopMark(data []byte) StopMark {
	lines := append(strings.Split(string(data), "\n"), "", "", "")
	return StopMark{Why: lines[0], Hint: lines[1], Interrupted: lines[2] == interrupted}
}

// ReadStopMark reads the mark of a pod. It returns the zero value if the pod was not stopped,
// or if the mark cannot be read.
func ReadStopMark(layout identity.Layout, uid string) StopMark {
	data, err := store.ReadState(layout.StoppedMark(uid))
	if err != nil {
		return StopMark{}
	}
	return ParseStopMark(data)
}
