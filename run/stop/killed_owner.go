package stop

import (
	"context"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/sandbox/cni"
)

// A call to the runtime may complete after the podrun process that made it was killed. The runtime
// cancels the call, but a call that is almost complete still takes effect. The owner record shows
// whether an owner was killed a short time ago (store.PodLock.Killed); only in that case do later
// owners wait for such effects.

// quietFor is the time during which no new object of a removed pod may appear before podrun
// considers the pod removed. containerd lists a sandbox when the sandbox's network has been set up,
// which takes far less than a second.
const quietFor = 2 * time.Second

// quietPoll is the interval at which podrun polls the runtime for new objects of a removed pod.
const quietPoll = 200 * time.Millisecond

// releaseFor is the maximum time that the runtime takes to release the network of a sandbox after
// it canceled the creation of the sandbox.
const releaseFor = 5 * time.Second

// removeLate removes objects of the pod that the runtime is still creating for a killed podrun
// process, until no new ones appear.
func (r *Remover) removeLate(ctx context.Context) error {
	if !r.lease.Lock.Killed {
		return nil
	}
	var gone []string
	for _, sb := range r.Pod.Observed.Sandboxes {
		gone = append(gone, sb.ID)
	}
	begun := time.Now()
	for quiet := begun; time.Since(quiet) < quietFor && time.Since(begun) < cri.BusyFor; {
		left, err := r.Pod.Node.Observe(ctx, r.Pod.Plan.ID.UID)
		if err != nil {
			return err
		}
		if len(left.Sandboxes)+len(left.Containers) > 0 {
			r.Pod.Observed, quiet = left, time.Now()
			for _, sb := range left.Sandboxes {
				gone = append(gone, sb.ID)
			}
			if err := r.Pod.CheckManaged(); err != nil {
				return err
			}
			if err := r.removeStopped(ctx); err != nil {
				return err
			}
		}
		if err := wait.Sleep(ctx, quietPoll); err != nil {
			return err
		}
	}
	if err := r.awaitRelease(ctx); err != nil {
		return err
	}
	if err := r.removeNetwork(ctx, gone); err != nil {
		return err
	}
	r.lease.Lock.Killed = false
	return nil
}

// removeNetwork removes leftovers of network plugins for the pod's sandboxes. It must be called
// after all sandboxes have been removed. Leftovers may exist because a signal that kills podrun may
// also kill a plugin that is releasing a network.
func (r *Remover) removeNetwork(ctx context.Context, gone []string) error {
	all, err := r.attachments(ctx)
	if err != nil {
		return err
	}
	return cni.Remove(ctx, r.Pod.Plan.Layout.RootDir, all, gone)
}

// awaitRelease waits up to releaseFor until the runtime has released the networks of the pod's
// sandboxes. If podrun removed the firewall rules of a sandbox before that, the plugins' DEL would
// fail, and the runtime would keep the network namespace.
func (r *Remover) awaitRelease(ctx context.Context) error {
	return cri.RetryWhile(ctx, releaseFor, func() (again bool, err error) {
		left, err := r.attachments(ctx)
		return len(left) > 0, err
	})
}

// attachments returns the network attachments of the pod's sandboxes.
func (r *Remover) attachments(ctx context.Context) ([]cni.Attachment, error) {
	all, err := cni.ReadAttachments(ctx)
	return slices.DeleteFunc(all, func(a cni.Attachment) bool {
		return !a.Managed || a.RootDir != r.Pod.Plan.Layout.RootDir || a.Pod.UID != r.Pod.Plan.ID.UID
	}), err
}

// removeUnreleased removes leftovers of network plugins for sandboxes that have been removed after
// their stop was interrupted. The DEL of a later stop succeeds, but does not remove these
// leftovers: to find its rule, the bridge plugin reads the address from the interface, which the
// first DEL has already removed.
func (r *Remover) removeUnreleased(ctx context.Context) error {
	if len(r.lease.Lock.Unreleased) == 0 {
		return nil
	}
	left, err := r.Pod.Node.Client.ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Clone(r.lease.Lock.Unreleased), func(id string) bool {
		return slices.ContainsFunc(left, func(sb *runtimeapi.PodSandbox) bool { return sb.GetId() == id })
	})
	if err := r.removeNetwork(ctx, gone); err != nil {
		return err
	}
	r.lease.Lock.NoteReleased(gone)
	return nil
}

// removeStopped kills and removes the observed sandboxes and containers of the pod. It also removes the
// containers individually, because their sandboxes may no longer exist.
func (r *Remover) removeStopped(ctx context.Context) error {
	for _, sb := range r.Pod.Observed.Sandboxes {
		if err := r.Stop.stopSandbox(ctx, sb.ID); err != nil {
			return err
		}
	}
	if err := r.removeSandboxes(ctx); err != nil {
		return err
	}
	for _, c := range r.Pod.Observed.Containers {
		if err := RemoveContainer(ctx, r.Pod.Node.Client, c.ID); err != nil {
			return fmt.Errorf("remove container %s (%s): %w", c.Name, observe.ShortID(c.ID), err)
		}
	}
	return nil
}
