package run

import (
	"context"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// Selector chooses pods. Empty fields choose all. A pod whose namespace is not
// known (discover.StoredPod) is in no namespace: its UID, which is its name then,
// chooses it.
type Selector struct {
	Namespace string
	Names     []string
	UID       string
}

func (sel Selector) matches(id identity.Pod) bool {
	if sel.Namespace != "" && sel.Namespace != id.Namespace && !(id.Namespace == "" && slices.Contains(sel.Names, id.UID)) || sel.UID != "" && sel.UID != id.UID {
		return false
	}
	if len(sel.Names) == 0 {
		return true
	}
	for _, n := range sel.Names {
		if n == id.Name {
			return true
		}
	}
	return false
}

// Find lists podrun's pods that match, by namespace and name.
func (e *Engine) Find(ctx context.Context, sel Selector) ([]Known, error) {
	found := map[string]identity.Pod{}
	stored, err := store.StoredPods(e.Layout())
	if err != nil {
		return nil, err
	}
	for _, id := range stored {
		found[id.UID] = id
	}
	sandboxes, err := observe.ReadSandboxes(ctx, e.Client, e.Layout(), nil)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Runtime, Object: "runtime", Err: err}
	}
	running := map[string]bool{}
	for _, s := range sandboxes {
		if s.Managed {
			found[s.Pod.UID], running[s.Pod.UID] = s.Pod, true
		}
	}
	var out []Known
	for _, id := range found {
		if !sel.matches(id) {
			continue
		}
		k := observe.ReadKnown(e.Layout(), id)
		if k.Pod == nil && k.Broken == nil && !running[id.UID] && !store.HasCheckpoint(e.Layout(), id.UID) {
			continue // removed, or replaced under another UID, while the runtime was asked
		}
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID.String() < out[j].ID.String() })
	return out, nil
}

// View is a pod as `get` shows it: the whole object with its status.
type View struct {
	Known
	Observed *lifecycle.Observed
	Object   *corev1.Pod
}

// Pods reads the state of the pods that match.
func (e *Engine) Pods(ctx context.Context, sel Selector) ([]View, error) {
	facts, err := discover.ReadBasics(ctx, e.Client, e.Settings)
	if err != nil {
		return nil, err
	}
	pods, err := e.Find(ctx, sel)
	if err != nil {
		return nil, err
	}
	out := make([]View, 0, len(pods))
	for _, k := range pods {
		obs, err := e.Observe(ctx, k.ID.UID)
		if err != nil {
			return nil, reconcile.RuntimeError(k.ID, err)
		}
		if k.Broken != nil {
			e.WarnOnce(problem.WarningOf(k.Broken))
		}
		started, ready := obs.Probed()
		out = append(out, View{Known: k, Observed: obs, Object: observe.ViewOf(ctx, k, obs, observe.HostInfo{IPs: facts.NodeIPs, Runtime: facts.Runtime, Handler: observe.HandlerOf(obs)}, observe.IsStopped(e.Layout(), k.ID.UID), started, ready)})
	}
	unstarted, err := store.ReadUnstarted(e.Layout())
	if err != nil {
		return nil, err
	}
	for _, u := range unstarted {
		id := identity.Pod{Namespace: u.Namespace, Name: u.Name}
		if sel.matches(id) && !slices.ContainsFunc(out, func(v View) bool { return v.ID.Namespace == id.Namespace && v.ID.Name == id.Name }) {
			out = append(out, View{Known: Known{ID: id}, Observed: &lifecycle.Observed{}, Object: unstartedPod(u)})
		}
	}
	return out, nil
}

// unstartedPod is a pod that the running supervisor could not start, as `get` shows
// it: pending, with the reason for which it was refused.
func unstartedPod(u store.Unstarted) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Reason: u.Reason, Message: u.Message}}
	for _, name := range u.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	return pod
}

// RuntimeVersion asks the runtime who it is.
func (e *Engine) RuntimeVersion(ctx context.Context) (host.Runtime, error) {
	v, err := discover.Reach(ctx, e.Client)
	return host.Runtime{
		Endpoint: e.Client.Endpoint(), Name: v.GetRuntimeName(),
		Version: v.GetRuntimeVersion(), APIVersion: v.GetRuntimeApiVersion(),
	}, err
}

// Events returns the events of a pod, aggregated, in the order of their last
// occurrence; none if it has no journal.
func (e *Engine) Events(uid string) ([]event.Event, error) {
	return store.ReadJournal(e.Layout(), uid)
}
