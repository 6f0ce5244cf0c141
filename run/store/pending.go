package store

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// Pending is the definition of a pod in a manifest source that a supervisor could not put into effect,
// and will try again. The supervisor creates this value; get, describe, /sources and /readyz print it.
type Pending struct {
	Namespace  string   `json:"namespace"`
	Name       string   `json:"name"`
	Source     string   `json:"source"`            // path of the manifest file, or the URL without its query
	Containers []string `json:"containers"`        // the containers' names
	Reason     string   `json:"reason"`            // in one word, such as OutOfcpu, ErrImagePull or Refused
	Message    string   `json:"message,omitempty"` // the details, in one line
	Hash       string   `json:"hash,omitempty"`    // of the definition
	// Since is the time of the first failure with this definition, and Next that of the next attempt.
	Since time.Time `json:"since,omitzero"`
	Next  time.Time `json:"next,omitzero"`
}

// UpdatePending is the type of the condition of a pod whose definition in a manifest source is not in effect.
const UpdatePending corev1.PodConditionType = "podrun.dev/UpdatePending"

// Cause returns the file and the cause, in one line.
func (p Pending) Cause() string {
	return "the definition in " + p.Source + " is not in effect: " + p.Message
}

// Text returns Cause and the time of the next attempt, in one line.
func (p Pending) Text() string {
	text := p.Cause()
	if !p.Next.IsZero() {
		text += "; next attempt at " + p.Next.Format(time.RFC3339)
	}
	return text
}

// Condition returns the condition that shows p in the status of the pod.
func (p Pending) Condition() corev1.PodCondition {
	return corev1.PodCondition{
		Type:               UpdatePending,
		Status:             corev1.ConditionTrue,
		Reason:             p.Reason,
		Message:            p.Text(),
		LastTransitionTime: metav1.NewTime(p.Since),
	}
}

var pendingFile = statefile.Declare(statefile.Kind[[]Pending]{
	What: "the record of definitions that are not in effect", Files: "serve/unstarted", Scope: statefile.Host,
	On:    statefile.Answers{Absent: "no such definitions", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Partial},
	Paths: statefile.At(identity.Layout.Serve, identity.ServeDir.Pending), Mode: 0o640,
})

// WritePending writes the list of definitions that the supervisor could not put into effect, for commands
// to read.
func WritePending(layout identity.Layout, list []Pending) error {
	if err := pendingFile.Write(layout.Serve().Pending(), list); err != nil {
		return fmt.Errorf("write %s: %w", pendingFile.What, err)
	}
	return nil
}

// LastPending returns the list that the previous supervisor of the root directory wrote. It returns nil if there is none, or
// if podrun cannot use the list: Since then begins again.
func LastPending(layout identity.Layout) []Pending {
	return pendingFile.Examine(context.Background(), layout.Serve().Pending()).Value
}

// ReadPending reads the list that the running supervisor wrote. It returns nil if no supervisor
// is running, or if podrun cannot use the list: the supervisor writes it again when it changes.
func ReadPending(layout identity.Layout) ([]Pending, error) {
	if !Supervised(layout) {
		return nil, nil
	}
	list, _, err := pendingFile.Read(context.Background(), layout.Serve().Pending()) // Scan reports the fault
	return list, err
}
