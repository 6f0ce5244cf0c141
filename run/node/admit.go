package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/hostfile"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// AdmitOptions are the options of Admit.
type AdmitOptions struct {
	PrepareOptions
	Continue bool // admit the other pods where some are refused
	// Origin is kept of the pods; its settings are the node's.
	Origin store.Origin
}

// Admit reads the host and decides about all pods, under the node's lock, and
// reserves their resources.
func (n *Node) Admit(ctx context.Context, objects *manifest.Objects, locks store.PodLocks, o AdmitOptions) (targets []prepare.Target, err error) {
	err = n.UnderNodeLock(ctx, func() (err error) {
		targets, err = n.decide(ctx, objects, locks, o)
		return err
	})
	if err == nil {
		n.tellSandboxImage(ctx, targets)
	}
	return targets, err
}

// decide does the work of Admit.
func (n *Node) decide(ctx context.Context, objects *manifest.Objects, locks store.PodLocks, o AdmitOptions) ([]prepare.Target, error) {
	if err := store.Sweep(n.Layout()); err != nil {
		return nil, err
	}
	prepared := o.PrepareOptions
	prepared.Now = time.Now()
	targets, problems, err := n.Prepare(ctx, objects, prepared)
	if err != nil {
		return nil, err
	}
	n.SendWarnings(problems.Warnings())
	if !o.Continue || len(targets) == 0 {
		if err := problem.Refuse(problem.Refused, problems); err != nil {
			return nil, err
		}
	}
	origin, err := n.origin(o.Origin)
	if err != nil {
		return nil, err
	}
	for i := range targets {
		locks[targets[i].Plan.ID.String()].Origin = origin
		err := own(targets[i], locks)
		if err == nil {
			err = n.reserveTarget(targets[i], locks[targets[i].Plan.ID.String()])
		}
		if err != nil {
			return nil, errors.Join(err, n.unreserve(ctx, targets[:i+1], locks))
		}
	}
	return targets, nil
}

// own makes this command the owner of an admitted pod. Of a pod that is to be
// replaced, that is the old one until it is removed.
func own(t prepare.Target, locks store.PodLocks) error {
	if t.Refused() != nil {
		return nil
	}
	uid := t.Plan.ID.UID
	if t.Change == prepare.ChangeReplace && len(t.Old) > 0 {
		uid = t.Old[0].ID.UID
	}
	return locks[t.Plan.ID.String()].Acquire(uid, store.PurposeRun, true, t.Change == prepare.ChangeNew)
}

// reserveTarget makes that what a pod was admitted to counts for others. Of a new
// pod its checkpoint does; one that is here still is what it was, and gets what
// it will want kept free beside that.
func (n *Node) reserveTarget(t prepare.Target, lock *store.PodLock) (err error) {
	switch {
	case t.Refused() != nil:
	case t.Change == prepare.ChangeNew:
		return Reserve(t.Plan)
	case t.Change != prepare.ChangeUnchanged || !t.Plan.Runs():
		if t.Change != prepare.ChangeReplace {
			err = holdDevices(t.Plan) // one that replaces another has no directory yet
		}
		if err == nil {
			lock.Reservation, err = n.HoldResources(t.Plan)
		}
	}
	return err
}

// PrepareOptions are the options of Prepare.
type PrepareOptions struct {
	AllowKubelet bool
	Force        bool        // plan to run pods again that are here
	Facts        *host.Facts // in place of this host's
	Now          time.Time   // the creation timestamp of new pods; zero leaves it unset
}

// Prepare reads what planning needs and plans.
func (n *Node) Prepare(ctx context.Context, objects *manifest.Objects, o PrepareOptions) ([]prepare.Target, problem.List, error) {
	in := prepare.Input{Objects: objects, Settings: n.Settings, Invocation: n.Invocation, AllowKubelet: o.AllowKubelet, Force: o.Force, Now: o.Now}
	facts := o.Facts
	if facts == nil {
		read, err := discover.Read(ctx, n.Client, n.Settings, WantedFacts(objects, o.AllowKubelet))
		if err != nil {
			return nil, nil, err
		}
		if in.Here, err = n.Here(ctx, objects, read); err != nil {
			return nil, nil, err
		}
		facts = &read
	}
	in.Facts = *facts
	targets, problems := prepare.All(in)
	if o.Facts == nil {
		var err error
		if problems, err = HostProblems(ctx, targets, objects, problems); err != nil {
			return nil, nil, err
		}
	}
	return targets, problems, nil
}

// WantedFacts are the costly facts that the pods ask for. Where pods may run
// beside a kubelet, none is searched for.
func WantedFacts(objects *manifest.Objects, allowKubelet bool) discover.Options {
	o := discover.Options{Ports: prepare.HostPorts(objects), Images: prepare.ImagesOf(objects), Kubelet: !allowKubelet}
	for _, p := range objects.Pods {
		o.SeccompProfiles = append(o.SeccompProfiles, admission.SeccompProfiles(p.Object)...)
	}
	return o
}

// Here reads the checkpoints of the pods that have the names of the command's, as
// the facts have them.
func (n *Node) Here(ctx context.Context, objects *manifest.Objects, facts host.Facts) ([]prepare.Here, error) {
	wanted := map[string]bool{}
	for _, p := range objects.Pods {
		wanted[p.Object.Namespace+"/"+p.Object.Name] = true
	}
	var out []prepare.Here
	for _, p := range facts.Pods {
		id := identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
		if !p.Managed || !wanted[id.String()] || !identity.SafeUID(p.UID) {
			continue
		}
		c, err := store.ReadCheckpoint(n.Layout(), id.UID)
		switch {
		case errors.Is(err, fs.ErrPermission) || store.IsNewer(err):
			return nil, err
		case err != nil:
			out = append(out, prepare.Here{ID: id, Broken: err})
			continue
		case c == nil:
			continue
		}
		owner, err := store.ReadOwner(n.Layout(), id)
		if err != nil {
			return nil, err
		}
		out = append(out, prepare.Here{ID: id, Pod: c.Pod, Made: *c, Ending: owner != nil && owner.Doomed && owner.UID == id.UID})
	}
	return out, n.observeHere(ctx, out)
}

// observeHere reads what the runtime has of pods whose checkpoints could be read,
// and whether they have ended.
func (n *Node) observeHere(ctx context.Context, pods []prepare.Here) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range pods {
		h := &pods[i]
		if h.Pod == nil {
			continue
		}
		group.Go(func() (err error) {
			if h.Observed, err = n.Observe(ctx, h.ID.UID); err != nil {
				return &problem.Error{Kind: problem.Runtime, Object: "pod " + h.ID.String(), Err: err}
			}
			started, _ := h.Observed.Probed()
			d := lifecycle.Next(h.Pod, lifecycle.World{Observed: h.Observed, Started: started, Now: time.Now(), Since: lifecycle.TakenOn(h.Pod, h.Observed)})
			h.Ended = d.Ended && h.Observed.Sandbox() != nil
			return nil
		})
	}
	return group.Wait()
}

// Reserve writes the checkpoint of a pod: from then on its requests count.
func Reserve(p *prepare.Plan) error {
	if err := volume.MakePodDir(p.Volumes); err != nil {
		return fmt.Errorf("pod %s: %w", p.ID, err)
	}
	if err := holdRange(p); err != nil {
		return fmt.Errorf("pod %s: hold its range of host IDs: %w", p.ID, err)
	}
	if err := holdDevices(p); err != nil {
		return err
	}
	return store.WriteCheckpoint(p.Layout, p.ID, p.Checkpoint)
}

// holdRange keeps which host IDs the pod's user namespace has. The node's lock is
// held, but may have been another's since the plan was made.
func holdRange(p *prepare.Plan) error {
	first, has := p.IDRange()
	if !has {
		return nil
	}
	taken, err := discover.UserNS(context.Background(), p.Layout)
	if err != nil {
		return err
	}
	for uid, other := range taken {
		if other == first && uid != p.ID.UID {
			return fmt.Errorf("that from %d on was taken by pod %s meanwhile; apply it again", first, uid)
		}
	}
	data, err := prepare.HeldRange(first)
	if err != nil {
		return err
	}
	return hostfile.Write(p.Layout.UserNS(p.ID.UID), data, 0o600)
}

// unreserveTimeout bounds how long reservations are taken back.
const unreserveTimeout = 30 * time.Second

// unreserve takes the reservations of new pods back.
func (n *Node) unreserve(ctx context.Context, targets []prepare.Target, locks store.PodLocks) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unreserveTimeout)
	defer cancel()
	var errs []error
	for _, t := range targets {
		locks[t.Plan.ID.String()].Reservation.Release()
		if t.Change == prepare.ChangeNew && t.Refused() == nil {
			errs = append(errs, volume.Remove(ctx, t.Plan.Layout, t.Plan.ID.UID), locks[t.Plan.ID.String()].Disown())
		}
	}
	return errors.Join(errs...)
}

// ReadFacts reads the facts of this host that planning these objects takes.
func (n *Node) ReadFacts(ctx context.Context, objects *manifest.Objects, allowKubelet bool) (host.Facts, error) {
	return discover.Read(ctx, n.Client, n.Settings, WantedFacts(objects, allowKubelet))
}

// HostProblems looks at what the pods' volumes take from this host, and adds
// what is wrong to the targets and to the list.
func HostProblems(ctx context.Context, targets []prepare.Target, objects *manifest.Objects, problems problem.List) (problem.List, error) {
	for i := range targets {
		t, mp := &targets[i], objects.Pods[i]
		if len(t.Problems.Errors()) > 0 {
			continue // of a plan that is not whole
		}
		found, err := volume.ReadProblems(ctx, t.Plan.Pod, t.Plan.Volumes)
		if err != nil {
			return problems, err
		}
		for _, p := range found {
			p = mp.Locate(p)
			t.Problems, problems = append(t.Problems, p), append(problems, p)
		}
	}
	return problems, nil
}

// HostFacts are this host's facts, for a pod that was admitted before.
func (n *Node) HostFacts(ctx context.Context) (host.Facts, error) {
	if n.Facts != nil {
		return n.Facts(ctx)
	}
	return discover.Read(ctx, n.Client, n.Settings, discover.Options{})
}
