package store

import (
	"context"
	"fmt"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
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

var unstartedFile = statefile.Declare(statefile.Kind[[]Unstarted]{
	What: "the record of pods that could not be started", Files: "serve/unstarted", Scope: statefile.Host,
	On:    statefile.Answers{Absent: "no such pods", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Partial},
	Paths: statefile.At(identity.Layout.Unstarted), Mode: 0o640,
})

// WriteUnstarted writes the list of pods that the supervisor could not apply, for commands to read.
func WriteUnstarted(layout identity.Layout, list []Unstarted) error {
	if err := unstartedFile.Write(layout.Unstarted(), list); err != nil {
		return fmt.Errorf("write %s: %w", unstartedFile.What, err)
	}
	return nil
}

// ReadUnstarted reads the list that the running supervisor wrote. It returns nil if no supervisor
// is running, or if podrun cannot use the list: the supervisor writes it again when it changes.
func ReadUnstarted(layout identity.Layout) ([]Unstarted, error) {
	if !Supervised(layout) {
		return nil, nil
	}
	list, _, err := unstartedFile.Read(context.Background(), layout.Unstarted()) // Scan reports the fault
	return list, err
}
