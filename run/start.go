package run

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// StartInput is the input of Start.
type StartInput struct {
	Targets
	Options ApplyOptions
}

// Start starts stopped pods again, from their checkpoints. With Options.Force, it recreates pods, whatever their
// state: it stops and removes their containers and sandboxes, within their grace periods, and starts them again. The
// report has one entry for each pod, unless there is an error: then Start has changed no pod.
func Start(ctx context.Context, n *node.Node, in StartInput) (Report, error) {
	pods, err := in.work(ctx, n)
	if err != nil || len(pods) == 0 {
		return Report{}, err
	}
	results, err := StartPods(ctx, n, pods, in.Options)
	return ReportOf(results), err
}

// StartPods is Start for pods that were found. A pod that fails to start remains on this host without containers, and
// can be restarted. The results and the error are those of ApplyPods; the error is of kind Failed if a checkpoint was
// not found. If another command deletes a pod before StartPods owns it, the pod's result is an error. StartPods reads
// the checkpoints under the pods' locks, because another command may have changed a pod since it was found.
func StartPods(ctx context.Context, n *node.Node, pods []Known, o ApplyOptions) ([]Result, error) {
	o.FromCheckpoint = true
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	here, gone, locks, err := lockExisting(ctx, n, pods)
	defer locks.Release()
	if err != nil {
		return nil, err
	}
	objects, err := checkpointed(n, here)
	if err != nil || len(here) == 0 {
		return gone, err
	}
	results, err := applyLocked(ctx, n, objects, locks, o)
	if err != nil {
		return nil, err
	}
	return append(results, gone...), nil
}

// lockExisting locks pods. It returns those that have not been deleted since they were found, each with its
// current UID, and the results of the others. The caller releases the locks, even if there is an error.
func lockExisting(ctx context.Context, n *node.Node, pods []Known) (here []Known, gone []Result, locks store.PodLocks, err error) {
	ids := make([]identity.Pod, len(pods))
	for i, k := range pods {
		ids[i] = k.ID
	}
	if locks, err = n.Locks().LockPods(ctx, ids); err == nil {
		here, gone, err = partitionDeleted(n, pods, locks)
	}
	return here, gone, locks, err
}

// partitionDeleted returns the pods that have not been deleted since they were found, each with
// its current UID, and the results of the others. The pods' locks must be held.
func partitionDeleted(n *node.Node, pods []Known, locks store.PodLocks) (here []Known, gone []Result, err error) {
	for _, k := range pods {
		if k.Pod == nil || store.HasCheckpoint(n.Layout(), k.ID.UID) {
			here = append(here, k)
			continue
		}
		r, err := locks[k.ID.String()].Owner()
		switch {
		case err != nil:
			return nil, nil, err
		case r == nil:
			err := &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(),
				Err: errors.New("was deleted by another command"), Hint: "apply its manifest again"}
			gone = append(gone, Result{ID: k.ID, Outcome: OutcomeFailed, Err: err})
			continue
		}
		if uid := successor(n, k, locks[k.ID.String()]); uid != "" {
			k.ID.UID = uid
		}
		here = append(here, k)
	}
	return here, gone, nil
}

// successor returns the UID of the pod that has replaced k since k was found. It returns "" if k
// still exists, or was removed without a replacement. The pod's lock must be held.
func successor(n *node.Node, k Known, lock *store.PodLock) string {
	if store.HasCheckpoint(n.Layout(), k.ID.UID) {
		return ""
	}
	r, err := lock.Owner()
	if err != nil || r == nil || !identity.SafeUID(r.UID) || r.UID == k.ID.UID || !store.HasCheckpoint(n.Layout(), r.UID) {
		return ""
	}
	return r.UID
}

// checkpointed returns the definitions in the pods' checkpoints, as the objects of a manifest.
func checkpointed(n *node.Node, pods []Known) (*manifest.Objects, error) {
	all := &manifest.Objects{}
	for _, k := range pods {
		c, err := checkpoint(n, k.ID)
		if err != nil {
			return nil, err
		}
		all.Add(c.Objects())
	}
	return all, nil
}

// checkpoint reads the checkpoint of a pod that podrun is about to apply again.
func checkpoint(n *node.Node, id identity.Pod) (*manifest.Checkpoint, error) {
	c, err := store.ReadCheckpoint(n.Layout(), id.UID)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, &problem.Error{Kind: problem.Failed, Object: "pod " + id.String(), Err: errors.New("its checkpoint was not found"),
			Hint: "apply its manifest again"}
	case c.SecretsLost:
		return nil, store.LostSecrets(id)
	}
	// apply decides whether to keep the ephemeral containers
	c.Pod = manifest.WithEphemeral(c.Pod, nil)
	return c, nil
}
