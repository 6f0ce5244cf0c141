package sandbox

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
)

// Remove stops and removes the sandbox of this plan, even if Apply has not reported its creation.
// It identifies the sandbox by the pod's UID, the attempt and the invocation, so that it never
// removes sandboxes of earlier attempts or of other podrun processes. It succeeds if there is
// nothing to remove. The error names each ID that it could not remove.
func Remove(ctx context.Context, client *cri.Client, p Plan) error {
	_, err := remove(ctx, client, p)
	return err
}

// remove implements Remove. It returns the number of sandboxes that it removed.
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

// removeOne stops and removes a sandbox. If it cannot stop the sandbox, it does not remove the
// sandbox: the runtime releases the network when it stops a sandbox, so the address of the removed
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

// stopError is the error for a sandbox that could not be stopped.
type stopError struct {
	id  string
	err error
}

// Error returns a message with what failed and why.
func (e stopError) Error() string { return "stop: " + e.err.Error() }

// Unwrap returns the runtime's error.
func (e stopError) Unwrap() error { return e.err }

// Unstopped returns the IDs of the sandboxes that could not be stopped. The argument err is the
// error of Remove or Recover, and may be nil. Network plugins may have released only a part of
// their networks.
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
