package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// DeleteOptions are the options of Delete.
type DeleteOptions struct {
	Timeout  time.Duration  // bounds the whole; 0 for no limit
	Grace    *time.Duration // instead of the pods' own; nil for those
	KeepLogs bool
}

// removeOptions are those of the removal of one pod.
type removeOptions struct {
	grace    *time.Duration
	keepLogs bool
	stopped  func() // called when everything has stopped, before it is removed
	// unstarted leaves a pod in place of which a container was started.
	unstarted bool
}

// Delete removes pods with everything that podrun made for them. An interrupted
// removal can be repeated. A pod that is not found is not among the results.
func (e *Engine) Delete(ctx context.Context, pods []Known, o DeleteOptions) ([]Result, error) {
	ctx, cancel := withTimeout(ctx, o.Timeout)
	defer cancel()
	facts, err := discover.ReadBasics(ctx, e.Client, e.Settings)
	if err != nil {
		return nil, orEnded(ctx, err)
	}
	if err := e.removeUnderNodeLock(ctx, func() error { return store.Sweep(e.layout()) }); err != nil && !store.CannotWrite(err) {
		return nil, err
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
	results := make([]Result, len(pods))
	sideBySide(names, func(name string) struct{} {
		for _, i := range byName[name] {
			results[i] = Result{ID: pods[i].ID, Outcome: OutcomeDeleted}
			if err := e.deleteOne(ctx, pods[i], facts, o); err != nil {
				results[i].Outcome, results[i].Err = OutcomeFailed, err
			}
		}
		return struct{}{}
	})
	return results, nil
}

func (e *Engine) deleteOne(ctx context.Context, k Known, facts host.Facts, o DeleteOptions) error {
	lock, err := e.locks().LockPod(ctx, k.ID, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return err
	}
	s := e.newSyncer(knownPlan(e, k, facts), nil, lock)
	s.ending, s.dooms = true, true
	err = s.removeOwned(ctx, removeOptions{grace: o.Grace, keepLogs: o.KeepLogs})
	return s.orInterrupted(ctx, err)
}

// removeOwned makes this command the owner of a pod and removes it. Where another
// command takes it over, that one removes it, or it is gone already and the pod
// that has its name is another incarnation.
func (s *syncer) removeOwned(ctx context.Context, o removeOptions) error {
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
func (s *syncer) removedByOther(ctx context.Context) (bool, error) {
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
	left, err := s.observe(ctx, s.plan.ID.UID)
	if err != nil {
		return false, runtimeError(s.plan.ID, err)
	}
	return len(left.Sandboxes)+len(left.Containers) == 0, nil
}

// knownPlan is a plan with no more in it than removing the pod takes.
func knownPlan(e *Engine, k Known, facts host.Facts) *prepare.Plan {
	p := &prepare.Plan{ID: k.ID, Pod: k.Pod, Layout: e.layout(), NodeIPs: facts.NodeIPs, Runtime: facts.Runtime.Name}
	if p.Pod == nil {
		p.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.ID.Namespace, Name: k.ID.Name}}
	}
	p.Cgroup = cgroup.Leftovers(k.ID.UID, facts.Cgroup, e.Settings)
	return p
}

// oldPlan is a plan with no more in it than removing a pod takes that is
// replaced by this one.
func (s *syncer) oldPlan(h prepare.Here) *prepare.Plan {
	return knownPlan(s.Engine, Known{ID: h.ID, Pod: h.Pod}, s.plan.Facts)
}

// remove stops the pod and removes all of it, in the order in which it can be
// done again after any failure: the directory, by which the pod is found, last.
// The error is store.ErrChanged where another command took the pod over meanwhile.
func (s *syncer) remove(ctx context.Context, o removeOptions) error {
	var err error
	if s.obs, err = s.observe(ctx, s.plan.ID.UID); err != nil {
		return runtimeError(s.plan.ID, err)
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
	if o.grace != nil {
		grace = *o.grace
	}
	err = s.stopPod(ctx, grace)
	if errors.Is(err, store.ErrChanged) {
		return err
	}
	if err != nil {
		return runtimeError(s.plan.ID, err)
	}
	if o.stopped != nil {
		o.stopped()
	}
	if err := s.removeSandboxes(ctx); err != nil {
		return runtimeError(s.plan.ID, err)
	}
	if err := s.removeGroups(ctx); err != nil {
		return runtimeError(s.plan.ID, err)
	}
	return s.removeFiles(ctx, o)
}

// removeFiles removes the pod's logs and directory, as much of them as it can.
func (s *syncer) removeFiles(ctx context.Context, o removeOptions) error {
	var errs []error
	if !o.keepLogs {
		errs = append(errs, s.removeLogs())
	}
	if !o.unstarted { // one that is applied again goes on with its back-off
		errs = append(errs, imagepull.ForgetBackOff(s.plan.Layout.ImageBackOff(), s.plan.ID.UID))
	}
	if err := errors.Join(append(errs, s.removeDirs(ctx))...); err != nil {
		return runtimeError(s.plan.ID, err)
	}
	return nil
}

// onlyOurs refuses to touch a pod whose sandbox is not podrun's.
func (s *syncer) onlyOurs() error {
	for _, sb := range s.obs.Sandboxes {
		if sb.RootDir != "" {
			return &problem.Error{Kind: problem.Refused, Object: "pod " + s.plan.ID.String(),
				Err:  fmt.Errorf("its sandbox %s is of a podrun with another root directory", short(sb.ID)),
				Hint: "use that one: --root-dir " + sb.RootDir}
		}
		if !sb.Managed {
			return &problem.Error{Kind: problem.Refused, Object: "pod " + s.plan.ID.String(),
				Err:  fmt.Errorf("its sandbox %s was not made by podrun", short(sb.ID)),
				Hint: "use the tool that made it"}
		}
	}
	return nil
}

// openJournal goes on with the pod's journal, if the pod has a directory.
func (s *syncer) openJournal() error {
	if _, err := os.Stat(s.plan.Layout.Pod(s.plan.ID.UID)); err != nil {
		return nil
	}
	if err := s.journal.Open(s.plan.Layout); err != nil && !store.CannotWrite(err) {
		return err
	}
	return nil
}

func (s *syncer) removeSandboxes(ctx context.Context) error {
	var errs []error
	for _, sb := range s.obs.Sandboxes {
		if err := s.Client.RemovePodSandbox(ctx, sb.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", short(sb.ID), err))
		}
	}
	return errors.Join(errs...)
}

// removeLogs removes the pod's logs and the links to them.
func (s *syncer) removeLogs() error {
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
func (s *syncer) removeDirs(ctx context.Context) error {
	dir, err := s.lockDir(ctx)
	if err != nil {
		return err
	}
	defer dir.Unlock()
	return volume.Remove(ctx, s.plan.Layout, s.plan.ID.UID)
}

// removeGroups removes the pod's control group, and those that pods share if
// this was the last one in them.
func (s *syncer) removeGroups(ctx context.Context) error {
	return s.removeUnderNodeLock(ctx, func() error {
		if err := cgroup.Remove(ctx, s.plan.Cgroup); err != nil {
			return err
		}
		return cgroup.RemoveParents(s.plan.Cgroup)
	})
}
