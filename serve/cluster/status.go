package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
)

// statuses writes the status of pods to the API server, and deletes the objects of removed pods.
type statuses struct {
	cluster *Cluster
	queue   workqueue.TypedRateLimitingInterface[string]

	mu    sync.Mutex
	known map[types.UID]*known
}

// known is the last known status of a pod of the API server.
type known struct {
	// status is the status that podrun has computed; nil before the pod is on this host.
	status *corev1.PodStatus
	// final is true if the containers have stopped and the pod is being removed.
	final bool
	// refusal is the status of a pod that is not on this host because podrun cannot run it. denied is
	// true if podrun will never run it.
	refusal *corev1.PodStatus
	denied  bool
	// generation is the generation that podrun has tried to apply.
	generation int64
	// event is the last event about the refusal.
	event string
}

// The delays before a failed patch is repeated, and the number of concurrent patches.
const (
	firstPatchRetry = 200 * time.Millisecond
	lastPatchRetry  = 30 * time.Second
	patchWorkers    = 8
	patchTimeout    = 30 * time.Second
	// readEvery is the interval at which podrun reads the status of pods that no worker reports.
	readEvery = 5 * time.Minute
)

func newStatuses(c *Cluster) *statuses {
	limits := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPatchRetry, lastPatchRetry)
	return &statuses{cluster: c, queue: workqueue.NewTypedRateLimitingQueue(limits), known: map[types.UID]*known{}}
}

// check makes podrun compare the status of a pod with that of the API server.
func (s *statuses) check(namespace, name string) { s.queue.Add(namespace + "/" + name) }

// of returns the entry of a pod. s.mu must be held.
func (s *statuses) of(uid types.UID) *known {
	k := s.known[uid]
	if k == nil {
		k = &known{}
		s.known[uid] = k
	}
	return k
}

// forget drops a pod that the API server no longer has.
func (s *statuses) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, uid)
}

// Status implements serve.Cluster.
func (c *Cluster) Status(pod *corev1.Pod) {
	if bound := c.pod(pod.Namespace, pod.Name); bound == nil || bound.UID != pod.UID {
		c.mirrorStatus(pod)
		return
	}
	c.statuses.set(pod)
}

// set records the status of a pod that is on this host.
func (s *statuses) set(pod *corev1.Pod) {
	s.mu.Lock()
	k := s.of(pod.UID)
	changed := !k.final && (k.status == nil || k.refusal != nil || !equality.Semantic.DeepEqual(*k.status, pod.Status))
	if changed {
		k.status = pod.Status.DeepCopy()
		k.refusal = nil
		k.denied = false
		k.event = ""
	}
	s.mu.Unlock()
	if changed {
		s.check(pod.Namespace, pod.Name)
	}
}

// stopped records the final status of a pod that podrun removes.
func (s *statuses) stopped(id identity.Pod, status corev1.PodStatus) {
	s.mu.Lock()
	k := s.of(types.UID(id.UID))
	k.status = status.DeepCopy()
	k.final = true
	k.refusal = nil
	s.mu.Unlock()
	s.check(id.Namespace, id.Name)
}

// refused reports whether podrun will never run a pod.
func (s *statuses) refused(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[uid] != nil && s.known[uid].denied
}

// run patches statuses until ctx ends.
func (s *statuses) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range patchWorkers {
		workers.Go(func() {
			for {
				key, ended := s.queue.Get()
				if ended {
					return
				}
				if err := s.sync(ctx, key); err != nil && ctx.Err() == nil {
					s.queue.AddRateLimited(key)
				} else {
					s.queue.Forget(key)
				}
				s.queue.Done(key)
			}
		})
	}
	workers.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(readEvery):
			}
			for _, pod := range s.cluster.list() {
				s.read(ctx, pod)
			}
		}
	})
	<-ctx.Done()
	s.queue.ShutDown()
	workers.Wait()
}

// read reads the status of a pod that has no worker, for example because the pod has ended, or
// whose worker has not reported a status since the mirror was created.
func (s *statuses) read(ctx context.Context, pod *corev1.Pod) {
	name := s.cluster.LocalName(pod.Namespace, pod.Name)
	if name == pod.Name && !s.cluster.hosted(pod.UID) {
		return
	}
	views, err := lookup.Pods(ctx, s.cluster.node.Engine, lookup.Selector{Namespace: pod.Namespace, Names: []string{name}})
	if err != nil || len(views) != 1 || name == pod.Name && views[0].Object.UID != pod.UID {
		return
	}
	shown := *views[0].Object
	shown.Name = pod.Name
	shown.UID = pod.UID
	s.set(&shown)
}

// sync brings one object of the API server up to date.
func (s *statuses) sync(ctx context.Context, key string) error {
	o, exists, err := s.cluster.pods.GetStore().GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod := o.(*corev1.Pod)
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	removed := pod.DeletionTimestamp != nil && !s.cluster.leftover(pod)
	want := s.wanted(pod, removed)
	if want == nil && !removed {
		s.read(ctx, pod) // read calls check if it finds a status
		return nil
	}
	if want != nil && !equality.Semantic.DeepEqual(*want, pod.Status) {
		if err := s.patch(ctx, pod, *want); err != nil {
			return ignoreGone(err)
		}
	}
	if !removed {
		return nil
	}
	return s.cluster.deleteObject(ctx, pod)
}

// deleteObject deletes a pod of the API server without a grace period: it has no containers.
func (c *Cluster) deleteObject(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.NewDeleteOptions(0)
	now.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	return ignoreGone(c.options.Client.Pods(pod.Namespace).Delete(ctx, pod.Name, *now))
}

// ignoreGone drops the errors of a pod that no longer exists, or whose name another pod has.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// patch sends the difference between the status of a pod and the wanted one, as the kubelet does.
func (s *statuses) patch(ctx context.Context, pod *corev1.Pod, want corev1.PodStatus) error {
	// With the UID, the API server refuses a patch for another pod of the same name.
	data, err := patchOf(corev1.Pod{Status: pod.Status}, corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: want})
	if err != nil {
		return fmt.Errorf("compute a patch: %w", err)
	}
	if string(data) == fmt.Sprintf(`{"metadata":{"uid":%q}}`, pod.UID) {
		return nil // the statuses differ in something that JSON does not have, such as fractions of seconds
	}
	_, err = s.cluster.options.Client.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// wanted returns the status for the API server; nil if podrun has none.
func (s *statuses) wanted(pod *corev1.Pod, removed bool) *corev1.PodStatus {
	s.mu.Lock()
	k := known{}
	if entry := s.known[pod.UID]; entry != nil {
		k = *entry
	}
	s.mu.Unlock()
	from := k.status
	if k.refusal != nil && !s.cluster.hosted(pod.UID) {
		from = k.refusal
	}
	switch {
	case podutil.IsPodPhaseTerminal(pod.Status.Phase) && (from == nil || !podutil.IsPodPhaseTerminal(from.Phase)):
		return nil
	case removed && !k.final && (from == nil || !podutil.IsPodPhaseTerminal(from.Phase)):
		lost := lostStatus(pod)
		from = &lost
	case from == nil:
		return nil
	}
	status := *from.DeepCopy()
	status.ObservedGeneration = max(from.ObservedGeneration, k.generation, pod.Status.ObservedGeneration)
	if removed || k.final {
		status.ObservedGeneration = pod.Generation
	}
	status = merged(pod, status)
	return &status
}

// ours are the types of the conditions that a kubelet writes.
var ours = map[corev1.PodConditionType]bool{corev1.PodReadyToStartContainers: true, corev1.PodInitialized: true, corev1.PodReady: true,
	corev1.ContainersReady: true, corev1.PodResizePending: true, corev1.PodResizeInProgress: true, corev1.AllContainersRestarting: true}

// merged returns a status with the parts of the API server's status that podrun does not write.
func merged(pod *corev1.Pod, s corev1.PodStatus) corev1.PodStatus {
	was := pod.Status
	if s.Reason == lifecycle.ReasonStopped || s.Reason == lifecycle.ReasonStopping {
		s.Reason = ""
		s.Message = ""
	}
	s.QOSClass = was.QOSClass
	if was.StartTime != nil {
		s.StartTime = was.StartTime
	}
	s.NominatedNodeName = was.NominatedNodeName
	s.ResourceClaimStatuses = was.ResourceClaimStatuses
	s.ExtendedResourceClaimStatus = was.ExtendedResourceClaimStatus
	var conditions []corev1.PodCondition
	for _, c := range s.Conditions {
		if ours[c.Type] || c.Type == corev1.DisruptionTarget {
			conditions = append(conditions, c)
		}
	}
	for _, c := range was.Conditions {
		if !ours[c.Type] && (c.Type != corev1.DisruptionTarget || indexOf(conditions, c.Type) == len(conditions)) {
			conditions = append(conditions, c)
		}
	}
	// Keep the API server's order: otherwise, a patch might change nothing but the order.
	slices.SortStableFunc(conditions, func(a, b corev1.PodCondition) int {
		return indexOf(was.Conditions, a.Type) - indexOf(was.Conditions, b.Type)
	})
	s.Conditions = conditions
	lifecycle.ApplyReadinessGates(pod, &s, was.Conditions, time.Now())
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.LastProbeTime = metav1.Time{}
		if !ours[c.Type] {
			continue
		}
		c.ObservedGeneration = s.ObservedGeneration
		if c.LastTransitionTime.IsZero() {
			// The condition of a pod whose containers have not been created.
			c.LastTransitionTime = metav1.Now()
			if at := indexOf(was.Conditions, c.Type); at < len(was.Conditions) && was.Conditions[at].Status == c.Status && !was.Conditions[at].LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.Conditions[at].LastTransitionTime
			}
		}
	}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			// For a container that is created but not started, the kubelet's status has a reason, too.
			if w := list[i].State.Waiting; w != nil && w.Reason == "" {
				w.Reason = "ContainerCreating"
			}
		}
	}
	return s
}

// indexOf returns the position of a condition, or the position after the last one if there is no such condition.
func indexOf(list []corev1.PodCondition, kind corev1.PodConditionType) int {
	for i := range list {
		if list[i].Type == kind {
			return i
		}
	}
	return len(list)
}
