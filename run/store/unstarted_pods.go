package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/podrun/podrun/internal/identity"
)

// Unstarted is a pod that a manifest directory defines, but that could not be applied and so is not
// on this host.
type Unstarted struct {
	Namespace  string   `json:"namespace"`
	Name       string   `json:"name"`
	Source     string   `json:"source"`            // the path of its file
	Containers []string `json:"containers"`        // the containers' names
	Reason     string   `json:"reason"`            // in one word: OutOfcpu, Refused
	Message    string   `json:"message,omitempty"` // the details, in one line
}

// WriteUnstarted writes the list of pods that could not be applied, for commands.
func WriteUnstarted(layout identity.Layout, list []Unstarted) error {
	data, err := json.Marshal(list)
	if err == nil {
		err = WriteState(layout.Unstarted(), data, 0o640)
	}
	if err != nil {
		return fmt.Errorf("record the pods that could not be started: %w", err)
	}
	return nil
}

// ReadUnstarted reads the list that the running supervisor has written. It returns none if no
// supervisor is running.
func ReadUnstarted(layout identity.Layout) ([]Unstarted, error) {
	data, err := ReadState(layout.Unstarted())
	if errors.Is(err, fs.ErrNotExist) || !Supervised(layout) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of pods that could not be started: %w", err)
	}
	var out []Unstarted
	if json.Unmarshal(data, &out) != nil {
		return nil, nil // corrupt; the supervisor writes the list again at its next change
	}
	return out, nil
}
