package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// reserve makes this command the owner of the admitted pods and reserves their resources. If it cannot reserve the
// resources of a pod, it reserves nothing. It also removes leftover reservations of killed podrun processes.
func (n *Node) reserve(ctx context.Context, dirs host.PodDirs, targets []prepare.Target, locks store.PodLocks, o AdmitOptions) error {
	defer trace.Begin(ctx, "reserve", "")()
	if err := store.SweepDirs(n.Layout(), dirs); err != nil {
		return err
	}
	for i := range targets {
		lock := locks[targets[i].Plan.ID.String()]
		err := n.setOrigin(targets[i], lock, o)
		if err == nil {
			err = n.reserveTarget(targets[i], lock)
		}
		if err != nil {
			return errors.Join(err, n.unreserve(ctx, targets[:i+1], locks))
		}
	}
	return nil
}

// reserveTarget makes this command the owner of an admitted pod and reserves the pod's resources. For
// a new pod, the checkpoint is the reservation. The current resources of an existing pod already
// count, so reserveTarget reserves the pod's future resources with a locked file. If the pod replaces
// another one, the owner record belongs to the old pod until podrun has removed that pod.
func (n *Node) reserveTarget(t prepare.Target, lock *store.PodLock) (err error) {
	if t.Refused() != nil {
		return nil
	}
	uid := t.Plan.ID.UID
	if t.Change == prepare.ChangeReplace && len(t.Old) > 0 {
		uid = t.Old[0].ID.UID
	}
	if err := lock.Acquire(uid, store.PurposeRun, true, t.Change == prepare.ChangeNew); err != nil {
		return err
	}
	switch {
	case t.Change == prepare.ChangeNew:
		return Reserve(t.Plan)
	case t.Change == prepare.ChangeUnchanged && t.Plan.Runs():
		return nil
	case keepsDir(t):
		if err := recordDevices(t.Plan); err != nil {
			return err
		}
	}
	lock.Reservation, err = n.HoldResources(t.Plan)
	return err
}

// Reserve creates a pod's directory and writes its checkpoint: from then on, other admissions count the
// pod's requests. The files are durable only after SyncReserved, which podrun calls before it creates
// the pod's first container. Reserve itself syncs nothing, because the caller holds the node's lock and
// must release it soon.
func Reserve(p *prepare.Plan) error {
	if err := volume.MakePodDir(p.Volumes); err != nil {
		return fmt.Errorf("pod %s: %w", p.ID, err)
	}
	if err := recordIDRange(p); err != nil {
		return fmt.Errorf("pod %s: reserve its range of host IDs: %w", p.ID, err)
	}
	if err := recordDevices(p); err != nil {
		return err
	}
	return store.ReserveCheckpoint(p.Layout, p.ID, p.Checkpoint)
}

// recordIDRange records the host IDs of the pod's user namespace. It checks them again, because
// another process may have held the node's lock since the pod was planned. The caller holds that
// lock.
func recordIDRange(p *prepare.Plan) error {
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
			return fmt.Errorf("another pod (UID %[2]s) took the range that starts at %[1]d while podrun admitted this pod; apply this pod again", first, uid)
		}
	}
	data, err := prepare.MarshalIDRange(first)
	if err != nil {
		return err
	}
	return hostfile.WriteUnsynced(p.Layout.Pod(p.ID.UID).UserNS(), data, 0o600)
}

// unreserveTimeout limits the time for undoing reservations.
const unreserveTimeout = 30 * time.Second

// unreserve removes the files that reserve wrote for new pods, and the reservations of existing
// pods.
func (n *Node) unreserve(ctx context.Context, targets []prepare.Target, locks store.PodLocks) error {
	ctx, cancel := wait.CleanupContext(ctx, unreserveTimeout)
	defer cancel()
	var errs []error
	for _, t := range targets {
		locks[t.Plan.ID.String()].Reservation.Release()
		if t.Change == prepare.ChangeNew && t.Refused() == nil {
			errs = append(errs, store.RemoveReserved(ctx, t.Plan.Layout, t.Plan.ID.UID), locks[t.Plan.ID.String()].Disown())
		}
	}
	return errors.Join(errs...)
}

// HoldResources reserves the resources that a pod on this host will request. The reservation is a
// locked file, which other admissions count until it is released. The caller holds the node's
// lock.
func (n *Node) HoldResources(p *prepare.Plan) (*store.LockedFile, error) {
	data, err := json.Marshal(admission.Describe(p.Pod, p.Devices))
	if err != nil {
		return nil, fmt.Errorf("pod %s: reserve its resources: %w", p.ID, err)
	}
	reserved, err := store.MakeLockedFile(n.Layout().Reservations(), "", data)
	if err != nil {
		return nil, fmt.Errorf("pod %s: reserve its resources: %w", p.ID, err)
	}
	return reserved, nil
}

// recordDevices records the devices of the pod's containers. The node's lock must be held.
func recordDevices(p *prepare.Plan) error {
	if !hasDevices(p) {
		return nil
	}
	if err := discover.DevicesFile.Write(p.Layout.Pod(p.ID.UID).Devices(), p.Devices); err != nil {
		return fmt.Errorf("pod %s: record its devices: %w", p.ID, err)
	}
	return nil
}

// hasDevices reports whether recordDevices records devices for a pod.
func hasDevices(p *prepare.Plan) bool { return len(p.Devices) > 0 || len(p.AssignedDevices()) > 0 }

// SyncReserved makes the files of Reserve, and the pod's directory, durable. It syncs the checkpoint
// after the other files, because a checkpoint must not exist without them. The node's lock is not
// required.
func SyncReserved(p *prepare.Plan) error {
	var files []string
	if _, has := p.IDRange(); has {
		files = append(files, p.Layout.Pod(p.ID.UID).UserNS())
	}
	if hasDevices(p) {
		files = append(files, p.Layout.Pod(p.ID.UID).Devices())
	}
	for _, file := range files {
		// A pod of an older podrun version may not have this file.
		if err := hostfile.Sync(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pod %s: %w", p.ID, err)
		}
	}
	if err := store.SyncCheckpoint(p.Layout, p.ID); err != nil {
		return err
	}
	// RootDir contains PodsDir, which podrun creates with the first pod.
	for _, dir := range []string{p.Layout.PodsDir(), p.Layout.RootDir} {
		if err := hostfile.SyncDir(dir); err != nil {
			return fmt.Errorf("pod %s: %w", p.ID, err)
		}
	}
	return nil
}

// syncDevices makes the recorded devices of existing pods durable before a container uses them. For new pods,
// SyncReserved does this.
func syncDevices(targets []prepare.Target) error {
	for _, t := range targets {
		if t.Refused() != nil || !keepsDir(t) || !hasDevices(t.Plan) {
			continue
		}
		if err := hostfile.Sync(t.Plan.Layout.Pod(t.Plan.ID.UID).Devices()); err != nil {
			return fmt.Errorf("pod %s: record its devices: %w", t.Plan.ID, err)
		}
	}
	return nil
}

// keepsDir reports whether a target reserves resources for a pod whose directory already exists and
// remains.
func keepsDir(t prepare.Target) bool {
	switch t.Change {
	// A replacement does not have a directory yet.
	case prepare.ChangeNew, prepare.ChangeReplace:
		return false
	case prepare.ChangeUnchanged:
		return !t.Plan.Runs()
	}
	return true
}
