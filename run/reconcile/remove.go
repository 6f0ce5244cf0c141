package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/run/node"

	"github.com/podrun/podrun/run/observe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// RemoveOptions are those of the removal of one pod.
type RemoveOptions struct {
	Grace    *time.Duration // replaces the pod's own; nil for that
	KeepLogs bool
	stopped  func() // called when everything has stopped, before it is removed
	// unstarted leaves a pod in place of which a container was started.
	unstarted bool
}

// Remove removes a pod and all that podrun made for it. An interrupted
// removal can be repeated.
func Remove(ctx context.Context, n *node.Node, k observe.Known, facts host.Facts, lock *store.PodLock, o RemoveOptions) error {
	s := newWorker(n, knownPlan(n, k, facts), nil, lock)
	s.ending, s.dooms = true, true
	return s.orInterrupted(ctx, s.removeOwned(ctx, o))
}

// removeOwned makes this command the owner of a pod and removes it. Where another
// command takes it over, that one removes it, or it is gone already and the pod
// that has its name is another incarnation.
func (s *Worker) removeOwned(ctx context.Context, o RemoveOptions) error {
	for {
		if err := s.acquire(store.PurposeRemove); err != nil {
			return err
		}
		err := s.remove(ctx, o)
		if err == nil {
			return s.lock.Disown()
		}
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
		if removed, err := s.removedByOther(ctx); removed || err != nil {
			return err
		}
	}
}

// removedByOther tells whether another command, which took the pod over, has
// removed this incarnation of it.
func (s *Worker) removedByOther(ctx context.Context) (bool, error) {
	r, err := s.lock.Owner()
	if err != nil || s.lock.Owned() {
		return false, err
	}
	if r != nil && r.Incarnation == s.lock.Incarnation && s.lock.Live(r) {
		if err := s.endOf(ctx, r); !errors.Is(err, store.ErrChanged) {
			return false, err
		}
		if r, err = s.lock.Owner(); err != nil {
			return false, err
		}
	}
	if r != nil {
		return r.Incarnation != s.lock.Incarnation, nil
	}
	left, err := s.Observe(ctx, s.plan.ID.UID)
	if err != nil {
		return false, RuntimeError(s.plan.ID, err)
	}
	return len(left.Sandboxes)+len(left.Containers) == 0, nil
}

// knownPlan is a plan with no more in it than removing the pod takes.
func knownPlan(n *node.Node, k observe.Known, facts host.Facts) *prepare.Plan {
	p := &prepare.Plan{ID: k.ID, Pod: k.Pod, Layout: n.Layout(), NodeIPs: facts.NodeIPs, Runtime: facts.Runtime.Name}
	if p.Pod == nil {
		p.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.ID.Namespace, Name: k.ID.Name}}
	}
	p.Cgroup = cgroup.Leftovers(k.ID.UID, facts.Cgroup, n.Settings)
	return p
}

// oldPlan is a plan with no more in it than removing a pod takes that is
// replaced by this one.
func (s *Worker) oldPlan(h prepare.Here) *prepare.Plan {
	return knownPlan(s.Node, observe.Known{ID: h.ID, Pod: h.Pod}, s.plan.Facts)
}

// remove stops the pod and removes all of it, in the order in which it can be
// done again after any failure: the directory, by which the pod is found, last.
// The error is store.ErrChanged where another command took the pod over meanwhile.
func (s *Worker) remove(ctx context.Context, o RemoveOptions) error {
	var err error
	if s.obs, err = s.Observe(ctx, s.plan.ID.UID); err != nil {
		return RuntimeError(s.plan.ID, err)
	}
	if err := s.onlyOurs(); err != nil {
		return err
	}
	if o.unstarted && lifecycle.AnyStarted(s.obs) {
		return nil
	}
	if err := s.openJournal(); err != nil {
		return err
	}
	defer s.journal.Close()
	grace := s.gracePeriod()
	if o.Grace != nil {
		grace = *o.Grace
	}
	err = s.stopPod(ctx, grace)
	if errors.Is(err, store.ErrChanged) {
		return err
	}
	if err != nil {
		return RuntimeError(s.plan.ID, err)
	}
	if o.stopped != nil {
		o.stopped()
	}
	if err := s.removeSandboxes(ctx); err != nil {
		return RuntimeError(s.plan.ID, err)
	}
	if err := s.removeGroups(ctx); err != nil {
		return RuntimeError(s.plan.ID, err)
	}
	return s.removeFiles(ctx, o)
}

// removeFiles removes the pod's logs and directory, as much of them as it can.
func (s *Worker) removeFiles(ctx context.Context, o RemoveOptions) error {
	var errs []error
	if !o.KeepLogs {
		errs = append(errs, s.removeLogs())
	}
	if !o.unstarted { // one that is applied again goes on with its back-off
		errs = append(errs, imagepull.ForgetBackOff(s.plan.Layout.ImageBackOff(), s.plan.ID.UID))
	}
	if err := errors.Join(append(errs, s.removeDirs(ctx))...); err != nil {
		return RuntimeError(s.plan.ID, err)
	}
	return nil
}

// onlyOurs refuses to touch a pod whose sandbox is not podrun's.
func (s *Worker) onlyOurs() error {
	for _, sb := range s.obs.Sandboxes {
		if sb.RootDir != "" {
			return &problem.Error{Kind: problem.Refused, Object: "pod " + s.plan.ID.String(),
				Err:  fmt.Errorf("its sandbox %s is of a podrun with another root directory", observe.ShortID(sb.ID)),
				Hint: "use that one: --root-dir " + sb.RootDir}
		}
		if !sb.Managed {
			return &problem.Error{Kind: problem.Refused, Object: "pod " + s.plan.ID.String(),
				Err:  fmt.Errorf("its sandbox %s was not made by podrun", observe.ShortID(sb.ID)),
				Hint: "use the tool that made it"}
		}
	}
	return nil
}

// openJournal goes on with the pod's journal, if the pod has a directory.
func (s *Worker) openJournal() error {
	if _, err := os.Stat(s.plan.Layout.Pod(s.plan.ID.UID)); err != nil {
		return nil
	}
	if err := s.journal.Open(s.plan.Layout); err != nil && !store.CannotWrite(err) {
		return err
	}
	return nil
}

func (s *Worker) removeSandboxes(ctx context.Context) error {
	var errs []error
	for _, sb := range s.obs.Sandboxes {
		if err := s.Client.RemovePodSandbox(ctx, sb.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", observe.ShortID(sb.ID), err))
		}
	}
	return errors.Join(errs...)
}

// removeLogs removes the pod's logs and the links to them.
func (s *Worker) removeLogs() error {
	links, err := filepath.Glob(filepath.Join(s.plan.Layout.ContainerLogsDir, s.plan.ID.Name+"_"+s.plan.ID.Namespace+"_*.log"))
	if err != nil {
		return fmt.Errorf("list links to logs: %w", err)
	}
	logs := s.plan.Layout.Logs(s.plan.ID)
	var errs []error
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, logs+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	if err := os.RemoveAll(logs); err != nil {
		errs = append(errs, fmt.Errorf("remove logs: %w", err))
	}
	return errors.Join(errs...)
}

// removeDirs removes the pod's directory.
func (s *Worker) removeDirs(ctx context.Context) error {
	dir, err := s.lockDir(ctx)
	if err != nil {
		return err
	}
	defer dir.Unlock()
	return volume.Remove(ctx, s.plan.Layout, s.plan.ID.UID)
}

// removeGroups removes the pod's control group, and those that pods share if
// this was the last one in them.
func (s *Worker) removeGroups(ctx context.Context) error {
	return s.RemoveUnderNodeLock(ctx, func() error {
		if err := cgroup.Remove(ctx, s.plan.Cgroup); err != nil {
			return err
		}
		return cgroup.RemoveParents(s.plan.Cgroup)
	})
}
