package lookup

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// View is the complete object of a pod, including its status, for `podrun get`.
type View struct {
	observe.Known
	Observed *lifecycle.Observed
	Object   *corev1.Pod
	// Stopped is true if a command has begun to stop the pod, or has stopped it.
	Stopped bool
	// KnownAt is the time of the last probe results that are known. It is zero if a process
	// supervises the pod, or if the pod has no probes.
	KnownAt time.Time
}

// UpdatePending is the type of the condition of a pod whose definition in a manifest source is not in effect.
const UpdatePending = store.UpdatePending

// Pods reads the pods that match and computes their statuses. The error is of kind Runtime. If
// a checkpoint cannot be read, Pods prints a warning, and the pod's status shows the error.
func Pods(ctx context.Context, n *node.Node, sel Selector) ([]View, error) {
	facts, err := discover.ReadBasics(ctx, n.Client, n.Settings)
	if err != nil {
		return nil, err
	}
	pods, err := Find(ctx, n, sel)
	if err != nil {
		return nil, err
	}
	pods = onePerName(pods)
	first, longest := n.Settings.CrashLoopBackOff()
	out := make([]View, 0, len(pods))
	for _, k := range pods {
		obs, err := n.Observe(ctx, k.ID.UID)
		if err != nil {
			return nil, pod.RuntimeError(k.ID, err)
		}
		if k.Broken != nil {
			n.WarnOnce(problem.WarningOf(k.Broken))
		}
		// If the record cannot be read, the pod is shown anyway.
		owner, _ := store.ReadOwner(n.Layout(), k.ID)
		k.Deletion = owner.DeletionOf(k.ID.UID)
		started, ready := obs.Probed()
		stopped := observe.IsStopped(n.Layout(), k.ID.UID)
		out = append(out, View{
			Known:    k,
			Stopped:  stopped,
			Observed: obs,
			KnownAt:  knownAt(n, k, obs, owner),
			Object: observe.ViewOf(ctx, k, obs, observe.HostInfo{
				IPs:     facts.NodeIPs,
				Runtime: facts.Runtime,
				Handler: observe.HandlerOf(obs),
				BackOff: lifecycle.RestartBackOff{First: first, Longest: longest},
			}, stopped, started, ready),
		})
	}
	pending, err := store.ReadPending(n.Layout())
	if err != nil {
		return nil, err
	}
	for _, p := range pending {
		id := identity.Pod{Namespace: p.Namespace, Name: p.Name}
		if !sel.Matches(id) {
			continue
		}
		at := slices.IndexFunc(out, func(v View) bool { return v.ID.Namespace == id.Namespace && v.ID.Name == id.Name })
		if at < 0 {
			at = len(out)
			out = append(out, View{Known: observe.Known{ID: id}, Observed: &lifecycle.Observed{}, Object: unstartedPod(p)})
		}
		status := &out[at].Object.Status
		status.Conditions = append(status.Conditions, p.Condition())
	}
	return out, nil
}

// onePerName drops each pod that has no checkpoint if another pod has the same name, because `get` shows one pod
// per name. An interrupted removal may leave such a pod behind. GC lists and removes the dropped pods, and `podrun
// delete NAME` removes all pods of that name.
func onePerName(pods []observe.Known) []observe.Known {
	shown := map[string]bool{}
	for _, k := range pods {
		if !k.Leftover() {
			shown[k.ID.String()] = true
		}
	}
	return slices.DeleteFunc(pods, func(k observe.Known) bool {
		if !k.Leftover() {
			return false
		}
		before := shown[k.ID.String()]
		shown[k.ID.String()] = true
		return before
	})
}

// knownAt returns the time of the last probe of a running pod that has probes and that no process supervises. For
// other pods, it returns zero. It also returns zero until the shortest probe period has passed, because a kubelet
// would have no newer results before then.
func knownAt(n *node.Node, k observe.Known, obs *lifecycle.Observed, owner *store.OwnerRecord) time.Time {
	period := lifecycle.ProbePeriod(k.Pod, obs)
	if period == 0 {
		return time.Time{}
	}
	at := obs.ProbedAt
	// No command has probed the pod yet, so its status is still the one from its start: not ready.
	if at.IsZero() {
		for _, c := range obs.Containers {
			if c.StartedAt.After(at) {
				at = c.StartedAt
			}
		}
	}
	if at.IsZero() || time.Since(at) <= period || owner.Live(n.Layout()) {
		return time.Time{}
	}
	return at
}

// unstartedPod returns a pod that the running supervisor could not start. `get` shows it as
// pending, with the reason of the refusal.
func unstartedPod(u store.Pending) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Reason: u.Reason, Message: u.Message}}
	for _, name := range u.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	return pod
}
