package run

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// DeleteOptions are the options of Delete and DeletePods.
type DeleteOptions struct {
	Timeout  time.Duration  // limits the whole operation; 0 for no limit
	Grace    *time.Duration // replaces the pods' grace periods; nil keeps them
	KeepLogs bool
	// DeleteVolumes also deletes the directories of the pods' claims below --pvc-dir. A pod is
	// kept if another pod uses one of its claims, unless DeletePods deletes that pod, too. If several
	// deleted pods share a claim, the last one deletes its directory.
	DeleteVolumes bool
	// Basics are facts about the host that the command reads while it searches for the pods. If
	// Basics is nil, DeletePods reads the facts itself.
	Basics *Basics
	// Found means that the user selected the pods by name, and that each of them was found complete, not as a
	// leftover of an interrupted command. DeletePods then does not remove leftovers of other pods, so that its duration
	// does not depend on the number of other pods; the next command that reads all pods removes them. The exception is a
	// reservation of a killed podrun, which can be that of the pod itself. If another
	// command replaced a pod after the search found it, DeletePods deletes the replacement.
	Found bool

	deleting map[string]bool // the pods that DeletePods deletes, by UID
}

// Basics are the facts about the host that DeletePods needs. A goroutine reads them.
type Basics struct {
	done  chan struct{} // closed when facts and err are set
	facts host.Facts
	err   error
}

// ReadBasics begins to read the facts that DeletePods needs; it stops when ctx ends.
func ReadBasics(ctx context.Context, n *node.Node) *Basics {
	b := &Basics{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.facts, b.err = discover.ReadBasics(ctx, n.Client, n.Settings)
	}()
	return b
}

// read waits until the facts are read or ctx ends; in the latter case, it returns the error of ctx.
func (b *Basics) read(ctx context.Context) (host.Facts, error) {
	select {
	case <-b.done:
		return b.facts, b.err
	case <-ctx.Done():
		return host.Facts{}, ctx.Err()
	}
}

// DeletePods removes pods and everything that podrun created for them, and returns one result per pod.
// An interrupted removal can be repeated. Each result has the pod's final status and the exit
// states of its containers, unless another command removed the pod. The error is of kind Runtime or
// Deadline if the facts about the host could not be read. In that case, DeletePods has removed nothing.
// The results contain the errors of individual pods.
func DeletePods(ctx context.Context, n *node.Node, pods []Known, o DeleteOptions) ([]Result, error) {
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if o.Basics == nil {
		o.Basics = ReadBasics(ctx, n)
	}
	facts, err := o.Basics.read(ctx)
	if err != nil {
		return nil, reconcile.ReadHostError(ctx, err)
	}
	if !o.Found || store.HasStaleReservation(n.Layout()) {
		if err := sweep(ctx, n); err != nil {
			return nil, err
		}
	}
	// Pods with the same name share a lock, so they are deleted one after the other.
	var names []string
	byName := map[string][]int{}
	for i, k := range pods {
		if name := k.ID.String(); len(byName[name]) == 0 {
			names = append(names, name)
		}
		byName[k.ID.String()] = append(byName[k.ID.String()], i)
	}
	o.deleting = map[string]bool{}
	for _, k := range pods {
		o.deleting[k.ID.UID] = true
	}
	results := make([]Result, len(pods))
	node.InParallel(names, func(name string) struct{} {
		for _, i := range byName[name] {
			results[i] = deleteOne(ctx, n, pods[i], facts, o)
		}
		return struct{}{}
	})
	return results, nil
}

// sweepPatience limits how long a delete waits for the node's lock before it skips the sweep: a
// suspended process that holds this lock must not block an unrelated delete.
const sweepPatience = 500 * time.Millisecond

// sweep removes files that no pod needs. If another process holds the node's lock, or the file
// system is read-only, it leaves the files to the next command.
func sweep(ctx context.Context, n *node.Node) error {
	short, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	err := n.RemoveUnderNodeLock(short, func() error { return store.Sweep(n.Layout()) })
	if store.CannotWrite(err) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

func deleteOne(ctx context.Context, n *node.Node, k Known, facts host.Facts, o DeleteOptions) Result {
	lock, err := n.Locks().WithGrace(reconcile.GraceOf(k.Pod, o.Grace)).LockPod(ctx, k.ID, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return Result{ID: k.ID, Outcome: OutcomeFailed, Err: err}
	}
	if uid := successor(n, k, lock); o.Found && uid != "" {
		k = observe.ReadKnown(n.Layout(), identity.Pod{Namespace: k.ID.Namespace, Name: k.ID.Name, UID: uid})
	}
	remove := stop.RemoveOptions{Grace: o.Grace, KeepLogs: o.KeepLogs}
	if o.DeleteVolumes {
		if remove.DeleteClaims, err = deletableClaims(n, k.ID, o.deleting); err != nil {
			return Result{ID: k.ID, Outcome: OutcomeFailed, Err: err}
		}
	}
	return removeLocked(ctx, n, k, facts, lock, remove)
}

// removeLocked removes a pod whose lock is held.
func removeLocked(ctx context.Context, n *node.Node, k Known, facts host.Facts, lock *store.PodLock, o stop.RemoveOptions) Result {
	result := reconcile.Remove(ctx, n, k, facts, lock, o)
	if result.Err == nil {
		lock.Forget()
	}
	return result
}
