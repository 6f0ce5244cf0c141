package run

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// DeleteOptions are the options of Delete.
type DeleteOptions struct {
	Timeout  time.Duration  // bounds the whole; 0 for no limit
	Spent    time.Duration  // the part of Timeout that the command used before
	Grace    *time.Duration // instead of the pods' own; nil for those
	KeepLogs bool
	// DeleteVolumes also deletes the directories that the pods' claims have below
	// --pvc-dir. A pod whose claim a pod uses that is not deleted with it stays; the last of
	// several deleted pods that share a claim deletes its directory.
	DeleteVolumes bool
	// Basics are facts that are read while the pods are searched for; nil to read them
	// afterwards.
	Basics *Basics
	// Found means that the pods were selected by name, and all were found: nothing of
	// them was left by a killed command. Then leftovers of other pods stay until the next
	// command that reads all pods, and the time does not depend on how many there are. A
	// pod that another command replaced after it was found is deleted as it is then.
	Found bool

	deleting map[string]bool // the pods that Delete deletes, by UID
}

// Basics are those of the host's facts that Delete needs; they are being read.
type Basics struct {
	done  chan struct{} // closed when the others are set
	facts host.Facts
	err   error
}

// ReadBasics begins to read the facts that Delete needs, until ctx ends.
func (e *Engine) ReadBasics(ctx context.Context) *Basics {
	b := &Basics{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.facts, b.err = discover.ReadBasics(ctx, e.Client, e.Settings)
	}()
	return b
}

// read waits for the facts, or for the end of ctx: its error is that of ctx.
func (b *Basics) read(ctx context.Context) (host.Facts, error) {
	select {
	case <-b.done:
		return b.facts, b.err
	case <-ctx.Done():
		return host.Facts{}, ctx.Err()
	}
}

// Delete removes pods with everything that podrun made for them, one result a pod.
// An interrupted removal can be repeated. Each result has the pod's status, and how
// its containers ended, as it was when all of it had stopped; neither where another
// command removed the pod. The error is of kind Runtime or Deadline, where the host
// could not be read, and nothing was removed; errors of single pods are in the
// results.
func (e *Engine) Delete(ctx context.Context, pods []Known, o DeleteOptions) ([]Result, error) {
	ctx, cancel := WithRest(ctx, o.Timeout, o.Spent)
	defer cancel()
	if o.Basics == nil {
		o.Basics = e.ReadBasics(ctx)
	}
	facts, err := o.Basics.read(ctx)
	if err != nil {
		return nil, reconcile.OrEnded(ctx, err)
	}
	if !o.Found {
		if err := e.sweep(ctx); err != nil {
			return nil, err
		}
	}
	// Pods of one name share a lock: they go one after the other.
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
			results[i] = e.deleteOne(ctx, pods[i], facts, o)
		}
		return struct{}{}
	})
	return results, nil
}

// sweepPatience is how long a delete waits for the node's lock to sweep: a process that
// holds it and does not run must not prevent a delete that has nothing to do with it.
const sweepPatience = 500 * time.Millisecond

// sweep removes files that no pod needs any more, or leaves that to the next command if
// another process holds the node's lock or the file system cannot be written.
func (e *Engine) sweep(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	err := e.RemoveUnderNodeLock(short, func() error { return store.Sweep(e.Layout()) })
	if store.CannotWrite(err) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

func (e *Engine) deleteOne(ctx context.Context, k Known, facts host.Facts, o DeleteOptions) Result {
	lock, err := e.Locks().LockPod(ctx, k.ID, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return Result{ID: k.ID, Outcome: OutcomeFailed, Err: err}
	}
	if uid := e.successor(k, lock); o.Found && uid != "" {
		k = observe.ReadKnown(e.Layout(), identity.Pod{Namespace: k.ID.Namespace, Name: k.ID.Name, UID: uid})
	}
	remove := stop.RemoveOptions{Grace: o.Grace, KeepLogs: o.KeepLogs}
	if o.DeleteVolumes {
		if remove.DeleteClaims, err = e.deletableClaims(k.ID, o.deleting); err != nil {
			return Result{ID: k.ID, Outcome: OutcomeFailed, Err: err}
		}
	}
	result := reconcile.Remove(ctx, &e.Node, k, facts, lock, remove)
	if result.Err == nil {
		lock.Forget()
	}
	return result
}
