package run

import (
	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/run/store"

	"github.com/podrun/podrun/run/lifecycle"

	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

// Known is a pod of podrun's that is on this host: on the runtime, in the root
// directory, or both.
type Known struct {
	ID  identity.Pod
	Pod *corev1.Pod // from its checkpoint; nil when that is gone or broken
	// Broken is why the checkpoint can't be read, with what to do; nil if it can,
	// or is gone. Such a pod can be shown and deleted, nothing else.
	Broken error
}

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
	stored, err := store.StoredPods(e.layout())
	if err != nil {
		return nil, err
	}
	for _, id := range stored {
		found[id.UID] = id
	}
	sandboxes, err := observeSandboxes(ctx, e.Client, e.layout(), nil)
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
		k := e.known(id)
		if k.Pod == nil && k.Broken == nil && !running[id.UID] && !store.HasCheckpoint(e.layout(), id.UID) {
			continue // removed, or replaced under another UID, while the runtime was asked
		}
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID.String() < out[j].ID.String() })
	return out, nil
}

// known reads a pod's checkpoint.
func (e *Engine) known(id identity.Pod) Known {
	c, err := store.ViewCheckpoint(e.layout(), id.UID)
	switch {
	case err != nil:
		if broken, ok := errors.AsType[*problem.Error](err); ok {
			err = store.BrokenCheckpoint(id, broken.Err) // by the name that it was found by
		}
		return Known{ID: id, Broken: err}
	case c == nil:
		return Known{ID: id}
	}
	return Known{ID: id, Pod: c.Pod}
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
		obs, err := e.observe(ctx, k.ID.UID)
		if err != nil {
			return nil, runtimeError(k.ID, err)
		}
		if k.Broken != nil {
			e.warnOnce(problem.WarningOf(k.Broken))
		}
		started, ready := obs.Probed()
		out = append(out, View{Known: k, Observed: obs, Object: viewOf(ctx, k, obs, node{facts.NodeIPs, facts.Runtime, handlerOf(obs)}, isStopped(e.layout(), k.ID.UID), started, ready)})
	}
	return out, nil
}

// RuntimeVersion asks the runtime who it is.
func (e *Engine) RuntimeVersion(ctx context.Context) (host.Runtime, error) {
	v, err := discover.Reach(ctx, e.Client)
	return host.Runtime{
		Endpoint: e.Client.Endpoint(), Name: v.GetRuntimeName(),
		Version: v.GetRuntimeVersion(), APIVersion: v.GetRuntimeApiVersion(),
	}, err
}

// node is what a pod's status has of the host.
type node struct {
	ips     []string
	runtime host.Runtime
	handler string // the pod's runtime handler; "" is the default
}

// handlerOf is the runtime handler of a pod's sandbox; "" if it has none.
func handlerOf(obs *lifecycle.Observed) string {
	if s := obs.Sandbox(); s != nil {
		return s.Handler
	}
	return ""
}

// viewOf puts the object together; over says that the pod was stopped until it
// is started by a command. For a pod whose checkpoint is gone or broken, it
// shows what the runtime knows.
func viewOf(ctx context.Context, k Known, obs *lifecycle.Observed, n node, over bool, started, ready map[string]bool) *corev1.Pod {
	pod := k.Pod.DeepCopy()
	if pod == nil {
		pod = orphan(k.ID, obs)
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.UID = types.UID(k.ID.UID)
	since := lifecycle.TakenOn(pod, obs)
	in := lifecycle.StatusInput{
		Observed: obs, NodeIPs: n.ips, RuntimeName: n.runtime.Name, RecursiveReadOnly: n.runtime.Handlers[n.handler].RecursiveReadOnlyMounts, Over: over, StartTime: since,
		Messages: terminationMessages(ctx, obs), Started: started, Ready: ready, Now: time.Now(),
	}
	d := lifecycle.Next(pod, lifecycle.World{Observed: obs, Now: in.Now, Since: since})
	in.Waiting = backingOff(d, k.ID)
	if d.Overdue {
		in.Reason, in.Message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	}
	pod.Status = lifecycle.Status(pod, in)
	if k.Broken != nil {
		pod.Status.Reason, pod.Status.Message = "CheckpointCorrupt", problem.WithHint(k.Broken)
		if len(obs.Containers) == 0 {
			pod.Status.Phase = corev1.PodUnknown
		}
	}
	if pod.CreationTimestamp.IsZero() {
		pod.CreationTimestamp = metav1.NewTime(since)
	}
	return pod
}

// isStopped tells whether a pod was stopped until a command starts it.
func isStopped(layout identity.Layout, uid string) bool {
	_, err := os.Lstat(layout.StoppedMark(uid))
	return err == nil
}

// orphan makes up a pod from its containers.
func orphan(id identity.Pod, obs *lifecycle.Observed) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name}}
	seen := map[string]bool{}
	for _, c := range obs.Containers {
		if !seen[c.Name] {
			seen[c.Name] = true
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return pod
}

// backingOff says which containers wait for the end of a back-off.
func backingOff(d lifecycle.Decision, id identity.Pod) map[string]lifecycle.Waiting {
	out := map[string]lifecycle.Waiting{}
	for _, name := range d.BackOff {
		out[name] = lifecycle.Waiting{Reason: "CrashLoopBackOff", Message: "back-off restarting failed container=" + name + " pod=" + id.Ref()}
	}
	return out
}

// status is the status of the syncer's pod as it was last seen.
func (s *syncer) status() corev1.PodStatus {
	started, ready, _ := s.probed()
	k := Known{ID: s.plan.ID, Pod: s.plan.Pod}
	// A sandbox that this command made was not read from the runtime.
	n := node{s.plan.NodeIPs, s.plan.Facts.Runtime, cmp.Or(s.plan.Sandbox.Handler, handlerOf(s.obs))}
	n.runtime.Name = s.plan.Runtime
	return viewOf(context.Background(), k, s.obs, n, isStopped(s.plan.Layout, s.plan.ID.UID), started, ready).Status
}

// Events returns the events of a pod, aggregated, in the order of their last
// occurrence; none if it has no journal.
func (e *Engine) Events(uid string) ([]event.Event, error) {
	return store.ReadJournal(e.layout(), uid)
}
