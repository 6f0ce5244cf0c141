package sandbox

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
)

// Remove stops and removes the sandbox of this plan, regardless of whether Apply reported
// its creation: it is identified by the pod's UID, the attempt and the invocation, so
// that sandboxes of earlier attempts or other podrun processes are never removed. It
// succeeds if there is nothing to remove; the error names each ID that could not be
// removed.
func Remove(ctx context.Context, client *cri.Client, p Plan) error {
	_, err := remove(ctx, client, p)
	return err
}

// remove implements Remove, and returns how many sandboxes it removed.
func remove(ctx context.Context, client *cri.Client, p Plan) (int, error) {
	found, err := client.ListPodSandbox(ctx, map[string]string{identity.LabelPodUID: p.ID.UID})
	if err != nil {
		return 0, fmt.Errorf("pod %s: list its sandboxes: %w", p.ID, err)
	}
	removed := 0
	var failed []error
	for _, s := range found {
		if !p.made(s) {
			continue
		}
		if err := removeOne(ctx, client, s.GetId()); err != nil {
			failed = append(failed, fmt.Errorf("pod %s: sandbox %s was not removed: %w", p.ID, s.GetId(), err))
			continue
		}
		removed++
	}
	return removed, errors.Join(failed...)
}

// made reports whether a sandbox was created from this plan.
func (p Plan) made(s *runtimeapi.PodSandbox) bool {
	return s.GetMetadata().GetUid() == p.ID.UID &&
		s.GetMetadata().GetAttempt() == p.Attempt &&
		s.GetAnnotations()[identity.AnnotationManagedBy] == identity.ManagedBy &&
		s.GetAnnotations()[identity.AnnotationInvocation] == p.Invocation
}

// removeOne stops and removes a sandbox. It does not remove one that could not be stopped:
// the runtime releases the network when it stops a sandbox, so the address of a removed
// sandbox would remain allocated.
func removeOne(ctx context.Context, client *cri.Client, id string) error {
	if err := client.StopPodSandbox(ctx, id); err != nil {
		return stopError{id, err}
	}
	if err := client.RemovePodSandbox(ctx, id); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

// stopError is the error of a sandbox that could not be stopped.
type stopError struct {
	id  string
	err error
}

// Error returns what failed and why.
func (e stopError) Error() string { return "stop: " + e.err.Error() }

// Unwrap returns the runtime's error.
func (e stopError) Unwrap() error { return e.err }

// Unstopped returns the IDs of the sandboxes that could not be stopped, from the error of
// Remove or Recover, which may be nil. Network plugins may have released their networks
// only in part.
func Unstopped(err error) []string {
	switch e := err.(type) {
	case stopError:
		return []string{e.id}
	case interface{ Unwrap() error }:
		return Unstopped(e.Unwrap())
	case interface{ Unwrap() []error }:
		var ids []string
		for _, one := range e.Unwrap() {
			ids = append(ids, Unstopped(one)...)
		}
		return ids
	}
	return nil
}
