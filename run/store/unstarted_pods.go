package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/podrun/podrun/internal/identity"
)

// Unstarted is a pod that a manifest directory defines but that is not on this host, because a
// supervisor could not apply it.
type Unstarted struct {
	Namespace  string   `json:"namespace"`
	Name       string   `json:"name"`
	Source     string   `json:"source"`            // path of the manifest file
	Containers []string `json:"containers"`        // the containers' names
	Reason     string   `json:"reason"`            // in one word, such as OutOfcpu or Refused
	Message    string   `json:"message,omitempty"` // the details, in one line
}

// WriteUnstarted writes the list of pods that the supervisor could not apply, for commands to read.
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

// ReadUnstarted reads the list that the running supervisor wrote. It returns nil if no supervisor
// is running.
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
		// The file is corrupt. The supervisor writes the list again when it changes.
		return nil, nil
	}
	return out, nil
}
