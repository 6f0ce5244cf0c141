package observe

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// HostInfo contains the data about the host that a pod's status includes.
type HostInfo struct {
	IPs     []string
	Runtime host.Runtime
	Handler string // the pod's runtime handler; "" is the default
	// BackOff are the node's delays before podrun starts an exited container again.
	BackOff lifecycle.RestartBackOff
}

// HandlerOf returns the runtime handler of the pod's sandbox. It returns "" for the default handler, or
// if there is no sandbox.
func HandlerOf(obs *lifecycle.Observed) string {
	if s := obs.Sandbox(); s != nil {
		return s.Handler
	}
	return ""
}

// ViewOf returns the pod with its status. The argument over is true if a command stopped the pod, so
// that it does not run until a command starts it. The arguments started and ready contain probe
// results by container ID. If the pod's checkpoint is missing or corrupt, ViewOf reconstructs the pod
// from the runtime's data.
func ViewOf(ctx context.Context, k Known, obs *lifecycle.Observed, n HostInfo, over bool, started, ready map[string]bool) *corev1.Pod {
	pod := k.Pod.DeepCopy()
	if pod == nil {
		pod = WithoutCheckpoint(k.ID, obs)
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.UID = types.UID(k.ID.UID)
	if d := k.Deletion; d != nil {
		end := metav1.NewTime(d.End())
		pod.DeletionTimestamp = &end
		pod.DeletionGracePeriodSeconds = &d.GraceSeconds
		obs = obs.WithRemoved()
	}
	since := lifecycle.StartTime(pod, obs)
	in := lifecycle.StatusInput{
		Observed:          obs,
		NodeIPs:           n.IPs,
		RuntimeName:       n.Runtime.Name,
		RecursiveReadOnly: n.Runtime.Handlers[n.Handler].RecursiveReadOnlyMounts,
		Over:              over,
		StartTime:         since,
		Undefined:         k.Leftover(),
		Messages:          TerminationMessages(ctx, obs),
		Started:           started,
		Ready:             ready,
		Now:               time.Now(),
	}
	d := lifecycle.Next(pod, lifecycle.World{Observed: obs, Now: in.Now, Since: since, BackOff: n.BackOff})
	in.Waiting = obs.WaitingReasons(backingOff(d, obs, n.BackOff, k.ID), in.Now)
	if d.Overdue {
		in.Reason = lifecycle.ReasonDeadlineExceeded
		in.Message = lifecycle.MessageDeadlineExceeded
	}
	pod.Status = lifecycle.Status(pod, in)
	if k.Broken != nil {
		pod.Status.Reason = event.CheckpointUnreadable
		pod.Status.Message = problem.WithHint(k.Broken)
		if store.IsCorrupt(k.Broken) {
			pod.Status.Reason = event.CheckpointCorrupt
		}
		if len(obs.Containers) == 0 {
			pod.Status.Phase = corev1.PodUnknown
		}
	}
	if k.Leftover() {
		pod.Status.Reason = "CheckpointMissing"
		pod.Status.Message = fmt.Sprintf("the pod has a sandbox but no checkpoint, because its removal was interrupted or its directory was removed; run 'podrun delete -n %s %s'", k.ID.Namespace, k.ID.Name)
	}
	if over && !d.Ended && pod.Status.Reason == "" {
		pod.Status.Reason = lifecycle.ReasonStopped
		pod.Status.Message = "podrun stopped the pod; run 'podrun start' to start it again"
		if slices.ContainsFunc(obs.Containers, func(c lifecycle.Container) bool { return c.State == lifecycle.Running }) {
			pod.Status.Reason = lifecycle.ReasonStopping
		}
	}
	if k.LostSecrets != nil && !d.Ended {
		pod.Status.Reason = "SecretsLost"
		pod.Status.Message = problem.WithHint(k.LostSecrets)
	}
	if pod.CreationTimestamp.IsZero() {
		pod.CreationTimestamp = metav1.NewTime(since)
	}
	return pod
}

// IsStopped reports whether a command stopped the pod, so that it does not run until a command
// starts it.
func IsStopped(layout identity.Layout, uid string) bool {
	_, err := os.Lstat(layout.Pod(uid).StoppedMark())
	return err == nil
}

// WithoutCheckpoint returns a substitute for a pod whose checkpoint podrun cannot read. It contains
// only the names and images of the pod's containers.
func WithoutCheckpoint(id identity.Pod, obs *lifecycle.Observed) *corev1.Pod {
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

// backingOff returns the waiting state of each container in back-off, by name.
func backingOff(d lifecycle.Decision, obs *lifecycle.Observed, limits lifecycle.RestartBackOff, id identity.Pod) map[string]lifecycle.Waiting {
	out := map[string]lifecycle.Waiting{}
	for _, name := range d.BackOff {
		delay := lifecycle.RestartDelay(obs.Container(name), limits)
		out[name] = lifecycle.Waiting{
			Reason:  "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, name, id.Ref()),
		}
	}
	return out
}
