package ownruntime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// replaceAgainAfter is the minimum interval between two automatic replacements of a store. If a store is
// damaged again so soon, the disk or the memory is probably defective, and further replacements would
// only terminate the containers repeatedly.
const replaceAgainAfter = time.Hour

// ownStore is the store of the embedded runtime.
type ownStore struct{ runtime *Runtime }

// isDamage reports whether a start failed because of a damaged store.
func isDamage(err error) bool {
	_, found := errors.AsType[embedded.Damage](err)
	return found
}

// prepare replaces the store of the embedded runtime if an earlier process decided on the replacement, or if the last
// starts failed because of a damaged store and this command may replace it. It must be called before containerd is
// started, with the layout's lock held.
func (s ownStore) prepare(ctx context.Context) error {
	condemned, err := embedded.ReadCondemned(ctx, s.runtime.layout)
	if err == nil && condemned == nil && s.runtime.Replaces && s.runtime.settings.RuntimeRecover {
		err = s.condemn(ctx)
		if err == nil {
			condemned, err = embedded.ReadCondemned(ctx, s.runtime.layout)
		}
	}
	if err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
			Op: "replace its damaged store", Err: err,
			Hint: "'podrun runtime logs' shows containerd's log; see docs/troubleshooting.md"}
	}
	if condemned == nil {
		return nil
	}
	if !s.runtime.settings.RuntimeRecover {
		return &problem.Error{Kind: problem.Refused, Object: "embedded runtime",
			Err:  errors.New("an earlier podrun process began to replace its damaged store and has ended its containers, but --runtime-recover=false is set"),
			Hint: "complete the replacement with 'podrun runtime up --runtime-recover'"}
	}
	setProblem(&s.runtime.problem, "podrun replaces its damaged store: "+condemned.Why)
	if err := s.replace(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
			Op: "replace its damaged store", Err: err, Hint: "the next start of the runtime tries again"}
	}
	return nil
}

// condemn decides to replace the store if enough starts have failed because of a damaged store, and records
// this decision.
func (s ownStore) condemn(ctx context.Context) error {
	ends := embedded.ReadEnds(ctx, s.runtime.layout)
	if _, err := os.Lstat(s.runtime.layout.Containerd()); ends.Damaged < embedded.DamagedStarts || errors.Is(err, fs.ErrNotExist) {
		return nil // there is no store: an earlier process was killed after it had moved the damaged one
	}
	before, err := embedded.ReadReplaced(ctx, s.runtime.layout)
	if err != nil {
		return err
	}
	if before != nil && !s.runtime.Attended {
		if since := time.Since(before.At); since >= 0 && since < replaceAgainAfter {
			return fmt.Errorf("%s; podrun replaced an earlier store %s ago: check the disk and the memory; podrun replaces the store again after %s, or immediately with 'podrun runtime up'",
				ends.Why, since.Round(time.Second), before.At.Add(replaceAgainAfter).Format(time.RFC3339))
		}
	}
	return embedded.Condemn(ctx, s.runtime.layout, ends.Damage, time.Now())
}

// replace terminates all processes that run from the condemned store, and moves the store aside. No pod
// may run twice on the same volumes, so each step must succeed before the next one begins.
func (s ownStore) replace(ctx context.Context) error {
	defer trace.Begin(ctx, "replace the damaged store", "")()
	faultpoint.At("store/condemned")
	if err := embedded.End(ctx, s.runtime.layout); err != nil {
		return err
	}
	faultpoint.At("store/ended")
	if err := s.endPods(ctx); err != nil {
		return err
	}
	faultpoint.At("store/pods-ended")
	if err := embedded.Release(ctx, s.runtime.layout); err != nil {
		return err
	}
	faultpoint.At("store/released")
	err := embedded.SetAside(ctx, s.runtime.layout)
	faultpoint.At("store/moved")
	return err
}

// endPods kills the processes that remain in the cgroups of the pods that podrun will start again, and
// removes the cgroups. Such processes exist if a container has outlived its shim. endPods keeps other
// cgroups with the mark of this root directory, because a podrun in a container may use a root
// directory with the same path.
func (s ownStore) endPods(ctx context.Context) error {
	n := &node.Node{Settings: s.runtime.settings, Warn: s.runtime.Warn, Command: s.runtime.Command, Invocation: store.RandomHex(8)}
	facts, err := discover.ReadCgroup(ctx, s.runtime.settings)
	if err != nil {
		return err
	}
	stored, err := store.StoredPods(n.Layout())
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range stored {
		plan := cgroup.Leftovers(id.UID, facts, s.runtime.settings)
		errs = append(errs, n.RemoveUnderNodeLock(ctx, func() error { return cgroup.Remove(ctx, plan) }))
	}
	return errors.Join(errs...)
}

// toAnnounce returns the last replacement of a store if no podrun process has recorded that it was
// reported. Otherwise it returns nil.
func (s ownStore) toAnnounce(ctx context.Context) *embedded.DamagedStore {
	replaced, err := embedded.ReadReplaced(ctx, s.runtime.layout)
	if err != nil || replaced == nil || replaced.Announced {
		return nil
	}
	return replaced
}

// unannounced reports whether announce has to be called. A running containerd does not exclude this:
// podrun may have been killed after it started containerd.
func (s ownStore) unannounced(ctx context.Context) bool { return s.toAnnounce(ctx) != nil }

// announce reports a replaced store once: with a line for the user and a Warning event for each pod. If
// podrun is killed before it has recorded the report, the next start reports the replacement again.
func (s ownStore) announce(ctx context.Context) {
	replaced := s.toAnnounce(ctx)
	if replaced == nil {
		return
	}
	replaced.Bytes = embedded.DiskUsage(ctx, s.runtime.layout.Replaced())
	stored, err := store.StoredPods(s.runtime.settings.Layout())
	if err != nil {
		return // the next start reports the replacement
	}
	message := replacementMessage(*replaced, s.runtime.layout)
	s.runtime.Warn(problem.List{{Warning: true, Object: "embedded runtime", Message: fmt.Sprintf("%s; %d pods are affected", message, len(stored))}})
	var errs []error
	for _, id := range stored {
		j := store.Journal{Pod: id}
		errs = append(errs, j.Open(s.runtime.settings.Layout()))
		j.Emit(event.Event{Type: event.Warning, Reason: event.RuntimeStoreReplaced, Message: message})
		errs = append(errs, j.Close())
	}
	faultpoint.At("store/announced")
	errs = append(errs, embedded.NoteAnnounced(s.runtime.layout, *replaced))
	if err := errors.Join(errs...); err != nil {
		s.runtime.Warn(problem.List{problem.WarningOf(err)})
	}
}

// note describes the last replacement. It returns "" if there is none, or if the damaged store was
// removed.
func (s ownStore) note(ctx context.Context) string {
	p := s.replacement(ctx)
	if p == nil {
		return ""
	}
	return fmt.Sprintf("podrun replaced the damaged store at %s (%s); %s (%d MB) can be removed", p.Time.Format(time.RFC3339), p.Reason, p.Directory, (p.Bytes+(1<<20)-1)>>20)
}

// replacementMessage describes a replacement. It is pure.
func replacementMessage(d embedded.DamagedStore, l embedded.Layout) string {
	return fmt.Sprintf("its store was damaged (%s): podrun ended all containers, whose writable layers are lost, and moved the store to %s (%d MB); images are loaded again from %s or pulled again",
		d.Why, l.Replaced(), (d.Bytes+(1<<20)-1)>>20, l.Images())
}

// Replacement describes a store that podrun replaced because it was damaged.
type Replacement struct {
	Time      time.Time `json:"time"`
	Reason    string    `json:"reason"`
	Directory string    `json:"directory"` // the damaged store, which podrun no longer uses
	Bytes     int64     `json:"bytes"`     // disk space of the damaged store
}

// replacement returns the last replacement whose store has not been removed; It returns nil if there is
// none, or if the user may not read the record.
func (s ownStore) replacement(ctx context.Context) *Replacement {
	d, err := embedded.ReadReplaced(ctx, s.runtime.layout)
	if err != nil || d == nil {
		return nil
	}
	return &Replacement{Time: d.At, Reason: d.Why, Directory: s.runtime.layout.Replaced(), Bytes: d.Bytes}
}

// Up starts the embedded runtime like Open. If the store is damaged, Up does not leave the
// replacement to later commands: it starts containerd repeatedly until enough starts have failed,
// and replaces the store. If containerd makes no progress, Up ends it and starts it once more.
func (r *Runtime) Up(ctx context.Context) (string, error) {
	r.Replaces = true
	r.Attended = true
	for try := 0; ; try++ {
		endpoint, err := r.Open(ctx, Starts)
		_, stalled := errors.AsType[embedded.Stalled](err)
		again := isDamage(err) && r.settings.RuntimeRecover && try < embedded.DamagedStarts || stalled && try == 0
		if !again {
			return endpoint, err
		}
	}
}

// hint returns how to fix a damaged store.
func (s ownStore) hint(ctx context.Context) string {
	switch {
	case !s.runtime.settings.RuntimeRecover:
		return "--runtime-recover=false keeps the store; 'podrun runtime up --runtime-recover' ends all containers and replaces it"
	case s.runtime.Replaces && !s.runtime.Attended:
		return fmt.Sprintf("podrun replaces the store after %d failed starts", embedded.DamagedStarts)
	case store.Supervised(s.runtime.settings.Layout()):
		return "'podrun serve' replaces the store"
	}
	return "'podrun runtime up' ends all containers and replaces the store; their writable layers are lost"
}

// failure explains why containerd is not running. It returns "" if containerd is running or no
// start has failed.
func (s ownStore) failure(ctx context.Context) string {
	if d, err := embedded.ReadCondemned(ctx, s.runtime.layout); err == nil && d != nil {
		return "podrun is replacing its store: " + d.Why
	} else if err != nil && !errors.Is(err, fs.ErrPermission) {
		return err.Error()
	}
	return embedded.ReadEnds(ctx, s.runtime.layout).Why
}
