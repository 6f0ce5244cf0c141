package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// decisionText formats a decision of Next as a list of words: CreateSandbox/1, Start app/2, Kill app-0,
// Hook app-0, watch app-0, wait 10s app, ended.
func decisionText(d Decision, now time.Time) string {
	var out []string
	for _, a := range d.Actions {
		switch a.Verb {
		case StartContainer:
			out = append(out, fmt.Sprintf("Start %s/%d", a.Container, a.Attempt))
		case CreateSandbox:
			out = append(out, fmt.Sprintf("CreateSandbox/%d", a.Attempt))
		case CreateContainer:
			out = append(out, "Create "+a.Container)
		case RemoveContainer:
			out = append(out, "Remove "+a.ID)
		case KillContainer:
			out = append(out, "Kill "+a.ID)
		case RunPostStart:
			out = append(out, "Hook "+a.ID)
		default:
			out = append(out, string(a.Verb))
		}
		if a.Why == "" {
			out = append(out, "(no reason)")
		}
	}
	for _, id := range d.Watch {
		out = append(out, "watch "+id)
	}
	if !d.Until.IsZero() {
		out = append(out, fmt.Sprintf("wait %s %s", d.Until.Sub(now), strings.Join(d.BackOff, ",")))
	}
	if d.Ended {
		out = append(out, "ended")
	}
	if d.Overdue {
		out = append(out, "overdue")
	}
	return strings.Join(out, ", ")
}

const (
	always    = corev1.RestartPolicyAlways
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever
)

// someHour is a time long after the last exit of a container of statusObserved.
var someHour = statusMinute(60)

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name      string
		policy    corev1.RestartPolicy
		pod       string // in the format of statusPod
		sandboxes int
		have      string // in the format of statusObserved
		change    func(*corev1.Pod, *World)
		want      string
	}{
		// The sandbox.
		{name: "nothing is here", policy: always, pod: "a b", want: "CreateSandbox/0, Start a/0, Start b/0"},
		{name: "the first init container comes alone", policy: always, pod: "i:i s:s a", want: "CreateSandbox/0, Start i/0"},
		{name: "a sidecar may be the first", policy: always, pod: "s:s i:i a", want: "CreateSandbox/0, Start s/0"},
		{name: "an empty sandbox is used", policy: always, pod: "a b", sandboxes: 1, want: "Start a/0, Start b/0"},
		{name: "a sandbox that is not ready is replaced", policy: always, pod: "a", sandboxes: 1,
			change: notReady, want: "KillPod, CreateSandbox/1, Start a/0"},
		{name: "no address", policy: always, pod: "a", sandboxes: 1, have: "a=run",
			change: func(_ *corev1.Pod, w *World) { w.Observed.Sandboxes[0].IPs = nil }, want: "KillPod, CreateSandbox/1, Start a/1"},
		{name: "the host's network needs none", policy: always, pod: "a", sandboxes: 1, have: "a=run",
			change: func(p *corev1.Pod, w *World) {
				p.Spec.HostNetwork, w.Observed.Sandboxes[0].HostNetwork, w.Observed.Sandboxes[0].IPs = true, true, nil
			}, want: "watch a-0"},
		{name: "another network mode", policy: always, pod: "a", sandboxes: 1, have: "a=run",
			change: func(p *corev1.Pod, _ *World) { p.Spec.HostNetwork = true }, want: "KillPod, CreateSandbox/1, Start a/1"},
		{name: "two sandboxes are ready", policy: always, pod: "a", sandboxes: 2, have: "a=run",
			change: func(_ *corev1.Pod, w *World) { w.Observed.Sandboxes[1].Ready = true }, want: "KillPod, CreateSandbox/2, Start a/1"},
		{name: "an attempt is never used twice", policy: always, pod: "a", sandboxes: 3, change: notReady, want: "KillPod, CreateSandbox/3, Start a/0"},

		// After a reboot of the host.
		{name: "reboot, Always", policy: always, pod: "i:i a b", sandboxes: 1, have: "i=0 a=255 b=0", change: notReady,
			want: "KillPod, CreateSandbox/1, Start i/1"},
		{name: "reboot, OnFailure, one had succeeded", policy: onFailure, pod: "a b", sandboxes: 1, have: "a=255 b=0", change: notReady,
			want: "KillPod, CreateSandbox/1, Start a/1"},
		{name: "reboot, OnFailure, all had succeeded", policy: onFailure, pod: "i:i a b", sandboxes: 1, have: "i=0 a=0 b=0", change: notReady, want: "ended"},
		{name: "reboot, OnFailure, in its init container", policy: onFailure, pod: "i:i a", sandboxes: 1, have: "i=255", change: notReady,
			want: "KillPod, CreateSandbox/1, Start i/1"},
		{name: "reboot, Never", policy: never, pod: "i:i a", sandboxes: 1, have: "i=0 a=255", change: notReady, want: "ended"},
		{name: "reboot, Never, before anything was created", policy: never, pod: "a", sandboxes: 1, change: notReady,
			want: "KillPod, CreateSandbox/1, Start a/0"},
		{name: "reboot, Never, before anything was started", policy: never, pod: "a", sandboxes: 1, have: "a=created", change: notReady,
			want: "KillPod, CreateSandbox/1, Start a/1"},

		// Containers of an older sandbox are ignored (k/k#140309, #120269).
		{name: "init containers of an old sandbox", policy: always, pod: "i:i j:x a", sandboxes: 2, have: "i@0=0 x@0=0 a@0=created",
			want: "Start i/1"},
		{name: "the second init container of an old sandbox", policy: always, pod: "i:i i:k a", sandboxes: 2, have: "i@0=0 k@0=0 a@0=255 i@1#1=0",
			want: "Start k/1"},
		{name: "an app container of an old sandbox", policy: always, pod: "a b", sandboxes: 2, have: "a@0=run b@0=255",
			want: "Start a/1, Start b/1"},
		{name: "one that had ended for good in an old sandbox", policy: onFailure, pod: "a b", sandboxes: 2, have: "a@0=0 b@0=255 b@1#1=run",
			want: "watch b-1"},
		{name: "a sidecar of an old sandbox", policy: always, pod: "s:s a", sandboxes: 2, have: "s@0=run a@0=run", want: "Start s/1"},

		// Init containers.
		{name: "init runs", policy: always, pod: "i:i a", sandboxes: 1, have: "i=run", want: "watch i-0"},
		{name: "init is done", policy: never, pod: "i:i i:j a", sandboxes: 1, have: "i=0", want: "Start j/0"},
		{name: "all are done", policy: never, pod: "i:i i:j a b", sandboxes: 1, have: "i=0 j=0", want: "Start a/0, Start b/0"},
		{name: "init failed, Always", policy: always, pod: "i:i a", sandboxes: 1, have: "i=7", want: "Start i/1"},
		{name: "init failed, OnFailure", policy: onFailure, pod: "i:i a", sandboxes: 1, have: "i=7", want: "Start i/1"},
		{name: "init failed, Never", policy: never, pod: "i:i a", sandboxes: 1, have: "i=7", want: "KillPod, ended"},
		{name: "init failed beside a sidecar, Never", policy: never, pod: "s:s i:i a", sandboxes: 1, have: "s=run i=7", want: "KillPod, ended"},
		{name: "init failed before a sidecar is made, Never", policy: never, pod: "i:i s:s a", sandboxes: 1, have: "i=7", want: "KillPod, ended"},
		{name: "init failed twice", policy: always, pod: "i:i a", sandboxes: 1, have: "i=7 i#1=7",
			change: at(statusMinute(2).Add(32 * time.Second)), want: "wait 8s i"},
		{name: "init was created and never started (k/k#126543)", policy: always, pod: "i:i a", sandboxes: 1, have: "i=created", want: "Start i/1"},
		{name: "init is in no state", policy: always, pod: "i:i a", sandboxes: 1, have: "i=unknown", want: "Start i/1"},
		{name: "init's record was pruned while the app runs (k/k#86531)", policy: always, pod: "i:i a", sandboxes: 1, have: "a=run", want: "watch a-0"},
		{name: "init's record was pruned and the app has exited", policy: always, pod: "i:i a", sandboxes: 1, have: "a=1", want: "Start a/1"},
		{name: "a failed init container's record while the app runs", policy: never, pod: "i:i a", sandboxes: 1, have: "i=7 a=run", want: "watch a-0"},
		{name: "the app was created only, and still counts", policy: always, pod: "i:i a", sandboxes: 1, have: "a=created", want: "Start a/1"},

		// These are init containers that podrun creates while the previous one runs.
		{name: "the next init container is created", policy: always, pod: "i:i i:j i:k a", sandboxes: 1, have: "i=run", change: ahead("j", "k"), want: "Create j, watch i-0"},
		{name: "a sidecar is created", policy: always, pod: "i:i s:s a", sandboxes: 1, have: "i=run", change: ahead("s"), want: "Create s, watch i-0"},
		{name: "it may not be created", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "i=run", change: ahead("k"), want: "watch i-0"},
		{name: "it is created once", policy: always, pod: "i:i i:j i:k a", sandboxes: 1, have: "i=run j=created", change: ahead("j", "k"), want: "watch i-0"},
		{name: "it is not created while a restarted one runs", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "i=1 i#1=run", change: ahead("j"), want: "watch i-1"},
		{name: "it is not created if it existed before", policy: always, pod: "i:i i:j a", sandboxes: 2, have: "j@0=0 i=run", change: ahead("j"), want: "watch i-0"},
		{name: "it is not created after its predecessor", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "i=0", change: ahead("j"), want: "Start j/0"},
		{name: "its predecessor has failed", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "j=created i=7", change: ahead("j"), want: "Remove j-0, Start i/1"},
		{name: "its predecessor has failed, and backs off", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "j=created i=7 i#1=7", change: both(ahead("j"), at(statusMinute(3).Add(32*time.Second))), want: "Remove j-0, wait 8s i"},
		{name: "its predecessor has failed, Never", policy: never, pod: "i:i i:j a", sandboxes: 1, have: "j=created i=7", change: ahead("j"), want: "KillPod, ended"},
		{name: "created before the predecessor ended: no run", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "j=created i=0", want: "Start j/0"},
		{name: "created after the predecessor ended: a run", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "i=0 j=created", want: "Start j/1"},
		{name: "created by this process: no run", policy: always, pod: "i:i i:j a", sandboxes: 1, have: "i=0 j=created", change: func(_ *corev1.Pod, w *World) { w.CreatedAhead = "j-0" }, want: "Start j/0"},
		{name: "created ahead in an old sandbox", policy: always, pod: "i:i i:j a", sandboxes: 2, have: "j@0=created i@0=0 i@1#1=0", want: "Start j/0"},
		{name: "created before the previous app was started: no run", policy: always, pod: "a b", sandboxes: 1, have: "b=created a=run", want: "Start b/0, watch a-0"},
		{name: "created after the previous app was started: a run", policy: always, pod: "a b", sandboxes: 1, have: "a=run b=created", want: "Start b/1, watch a-0"},
		{name: "created ahead of an app that was not started", policy: always, pod: "a b", sandboxes: 1, have: "a=created b=created", want: "Start a/1, Start b/0"},
		{name: "created while the previous app was restarted: a run", policy: always, pod: "a b", sandboxes: 1, have: "b=created a=1 a#1=run", want: "Start b/1, watch a-1"},

		// Sidecars (KEP-753).
		{name: "a sidecar in its turn", policy: always, pod: "i:i s:s i:j a", sandboxes: 1, have: "i=0", want: "Start s/0"},
		{name: "the next after a sidecar", policy: always, pod: "s:s i:j a", sandboxes: 1, have: "s=run", want: "Start j/0, watch s-0"},
		{name: "the apps after a sidecar", policy: never, pod: "s:s a b", sandboxes: 1, have: "s=run", want: "Start a/0, Start b/0, watch s-0"},
		{name: "a sidecar that was created only (k/k#126543)", policy: never, pod: "s:s a", sandboxes: 1, have: "s=created", want: "Start s/1"},
		{name: "a sidecar exited before the apps", policy: never, pod: "s:s i:i a", sandboxes: 1, have: "s=0 i=0", want: "Start s/1"},
		// A directory is mounted at /etc/hosts.
		{name: "no hosts file: all are killed first", policy: always, pod: "s:s a b", sandboxes: 1, have: "s=run a=run b=run", change: hostsLost, want: "Kill s-0, Kill a-0, Kill b-0"},
		{name: "no hosts file: the others are killed before a start", policy: always, pod: "a b", sandboxes: 1, have: "a=137 b=run", change: hostsLost, want: "Kill b-0"},
		{name: "no hosts file: no back-off", policy: always, pod: "a", sandboxes: 1, have: "a=137 a#1=137",
			change: both(hostsLost, at(statusMinute(2).Add(32*time.Second))), want: "Start a/2"},
		{name: "no hosts file: a container that runs once", policy: never, pod: "s:s a", sandboxes: 1, have: "s=run a=run", change: hostsLost, want: "Kill s-0"},
		{name: "no hosts file: a regular init container", policy: always, pod: "i:i a", sandboxes: 1, have: "i=run", change: hostsLost, want: "watch i-0"},
		{name: "a sidecar exited while the app runs", policy: never, pod: "s:s a", sandboxes: 1, have: "s=1 a=run", want: "Start s/1, watch a-0"},
		{name: "two sidecars exited while the app runs", policy: never, pod: "s:s s:z a", sandboxes: 1, have: "s=1 z=0 a=run",
			want: "Start s/1, Start z/1, watch a-0"},
		{name: "a sidecar is awaited while init runs", policy: always, pod: "s:s i:i a", sandboxes: 1, have: "s=run i=run", want: "watch s-0, watch i-0"},
		{name: "a sidecar restarts while init runs", policy: always, pod: "s:s i:i a", sandboxes: 1, have: "i=run s=1", want: "Start s/1"},
		{name: "a sidecar backs off before the apps", policy: always, pod: "s:s a", sandboxes: 1, have: "s=1 s#1=1",
			change: at(statusMinute(2).Add(30 * time.Second)), want: "wait 10s s"},
		{name: "a sidecar backs off while the app runs", policy: always, pod: "s:s a", sandboxes: 1, have: "s=1 s#1=1 a=run",
			change: at(statusMinute(2).Add(35 * time.Second)), want: "watch a-0, wait 5s s"},
		{name: "the apps are done: the sidecar goes", policy: never, pod: "s:s a", sandboxes: 1, have: "s=run a=0", want: "KillPod, ended"},
		{name: "the apps are done: the sidecar is not restarted", policy: onFailure, pod: "s:s a", sandboxes: 1, have: "s=137 a=0", want: "KillPod, ended"},
		{name: "the app restarts, whatever the sidecar does (k/k#125935)", policy: always, pod: "s:s a", sandboxes: 1, have: "s=run a=1", want: "Start a/1, watch s-0"},

		// App containers.
		{name: "all run", policy: always, pod: "a b", sandboxes: 1, have: "a=run b=run", want: "watch a-0, watch b-0"},
		{name: "one is missing", policy: always, pod: "a b c", sandboxes: 1, have: "a=run c=run", want: "Start b/0, watch a-0, watch c-0"},
		{name: "one was created only", policy: never, pod: "a b", sandboxes: 1, have: "a=created b=run", want: "Start a/1, watch b-0"},
		{name: "one is in no state", policy: never, pod: "a", sandboxes: 1, have: "a=unknown", want: "Start a/1"},
		{name: "exited 0, Always", policy: always, pod: "a", sandboxes: 1, have: "a=0", want: "Start a/1"},
		{name: "exited 0, OnFailure", policy: onFailure, pod: "a b", sandboxes: 1, have: "a=0 b=run", want: "watch b-0"},
		{name: "exited 1, OnFailure", policy: onFailure, pod: "a", sandboxes: 1, have: "a=1", want: "Start a/1"},
		{name: "exited 1, Never", policy: never, pod: "a b", sandboxes: 1, have: "a=1 b=run", want: "watch b-0"},
		{name: "completed", policy: never, pod: "a b", sandboxes: 1, have: "a=0 b=0", want: "KillPod, ended"},
		{name: "failed", policy: never, pod: "i:i a b", sandboxes: 1, have: "i=0 a=1 b=0", want: "KillPod, ended"},
		{name: "completed, and its sandbox is stopped", policy: never, pod: "a", sandboxes: 1, have: "a=0", change: notReady, want: "ended"},
		{name: "two back off: the shorter counts", policy: always, pod: "a b", sandboxes: 1, have: "a#5=1 b#1=1",
			change: at(statusMinute(2).Add(30 * time.Second)), want: "wait 10s a,b"},
		{name: "one backs off, one starts", policy: always, pod: "a b", sandboxes: 1, have: "a#5=1 b=1",
			change: at(statusMinute(2).Add(30 * time.Second)), want: "Start b/1, wait 1m40s a"},
		{name: "the clock was set back", policy: always, pod: "a", sandboxes: 1, have: "a#1=1", change: at(statusT0.Add(-24 * time.Hour)), want: "Start a/2"},
		{name: "the newest run counts", policy: never, pod: "a", sandboxes: 1, have: "a=1 a#1=0 a#2=run", want: "watch a-2"},

		// Changed definitions.
		{name: "the same definition", policy: always, pod: "a", sandboxes: 1, have: "a=run", change: hashes("h1", "h1"), want: "watch a-0"},
		{name: "another definition", policy: always, pod: "a", sandboxes: 1, have: "a=run", change: hashes("h1", "h2"), want: "Kill a-0, Start a/1"},
		{name: "another definition, Never", policy: never, pod: "a", sandboxes: 1, have: "a=run", change: hashes("h1", "h2"), want: "Kill a-0, Start a/1"},
		{name: "no definition is known", policy: always, pod: "a", sandboxes: 1, have: "a=run", change: hashes("", "h2"), want: "watch a-0"},

		// Hooks (k/k#60053, #122803).
		{name: "a hook that was not seen to begin", policy: always, pod: "a b", sandboxes: 1, have: "a=run", change: hookIs("a", ""),
			want: "Hook a-0, Start b/0"},
		{name: "a hook that was not seen to end", policy: always, pod: "a", sandboxes: 1, have: "a=run", change: hookIs("a", HookPending), want: "Hook a-0"},
		{name: "a hook that has run", policy: always, pod: "a", sandboxes: 1, have: "a=run", change: hookIs("a", HookDone), want: "watch a-0"},
		{name: "a hook of a container that has exited", policy: never, pod: "a", sandboxes: 1, have: "a=0", change: hookIs("a", HookPending), want: "KillPod, ended"},
		{name: "a sidecar's hook comes before what follows", policy: always, pod: "s:s i:i a", sandboxes: 1, have: "s=run", change: hookIs("s", HookPending), want: "Hook s-0"},
		{name: "a sidecar's hook while the app runs", policy: always, pod: "s:s a", sandboxes: 1, have: "s=run a=run", change: hookIs("s", HookPending),
			want: "Hook s-0, watch a-0"},

		// Restart rules of a container (KEP-5307).
		{name: "a container of its own policy Never", policy: always, pod: "a b", sandboxes: 1, have: "a=1 b=run",
			change: policyOf("a", never), want: "watch b-0"},
		{name: "a container of its own policy Always", policy: never, pod: "a", sandboxes: 1, have: "a=0", change: policyOf("a", always), want: "Start a/1"},
		{name: "a rule that restarts", policy: never, pod: "a", sandboxes: 1, have: "a=42", change: rule("a", 42), want: "Start a/1"},
		{name: "a rule for another code", policy: never, pod: "a", sandboxes: 1, have: "a=1", change: rule("a", 42), want: "KillPod, ended"},
		{name: "a rule for an init container", policy: never, pod: "i:i a", sandboxes: 1, have: "i=42", change: rule("i", 42), want: "Start i/1"},
		{name: "a rule for an init container's other code", policy: never, pod: "i:i a", sandboxes: 1, have: "i=1", change: rule("i", 42), want: "KillPod, ended"},
		{name: "an init container of its own policy Never", policy: always, pod: "i:i a", sandboxes: 1, have: "i=1", change: policyOf("i", never), want: "KillPod, ended"},

		// Rules that restart all containers (KEP-5532).
		{name: "a rule that restarts all", policy: never, pod: "i:i a b", sandboxes: 1, have: "i=0 a=42 b=run", change: ruleAll("a", 42), want: "RestartAll"},
		{name: "its other code", policy: never, pod: "i:i a b", sandboxes: 1, have: "i=0 a=1 b=run", change: ruleAll("a", 42), want: "watch b-0"},
		{name: "it does not back off", policy: never, pod: "a b", sandboxes: 1, have: "a#1=42 b=run", change: both(ruleAll("a", 42), at(statusMinute(1).Add(33*time.Second))), want: "RestartAll"},
		{name: "all were restarted since", policy: never, pod: "i:i a", sandboxes: 1, have: "i=0 a=42", change: both(ruleAll("a", 42), restarted), want: "Start i/1"},
		{name: "and init is done again", policy: never, pod: "i:i a", sandboxes: 1, have: "i=0 a=42 i#1=0", change: both(ruleAll("a", 42), restarted), want: "Start a/1"},

		// Probes.
		{name: "a sidecar's startup probe gates what follows", policy: always, pod: "s:s i:i a", sandboxes: 1, have: "s=run", change: startup("s", false), want: "watch s-0"},
		{name: "it has succeeded", policy: always, pod: "s:s i:i a", sandboxes: 1, have: "s=run", change: startup("s", true), want: "Start i/0, watch s-0"},
		{name: "it gates nothing once the app was made", policy: always, pod: "s:s a", sandboxes: 1, have: "s=run a=1", change: startup("s", false), want: "Start a/1, watch s-0"},
		{name: "an app's startup probe gates nothing", policy: always, pod: "a b", sandboxes: 1, have: "a=run", change: startup("a", false), want: "Start b/0, watch a-0"},
		{name: "a probe failed for good", policy: always, pod: "a b", sandboxes: 1, have: "a=run b=run", change: unhealthy("a"), want: "Kill a-0, watch b-0"},
		{name: "a sidecar's probe failed for good", policy: never, pod: "s:s a", sandboxes: 1, have: "s=run a=run", change: unhealthy("s"), want: "Kill s-0, watch a-0"},

		// activeDeadlineSeconds.
		{name: "a deadline is waited for", policy: always, pod: "a", sandboxes: 1, have: "a=run", change: dueAfter(90*time.Second, 2), want: "watch a-0, wait 30s "},
		{name: "a deadline has come", policy: always, pod: "i:i a b", sandboxes: 1, have: "i=0 a=run", change: dueAfter(time.Minute, 2), want: "KillPod, ended, overdue"},
		{name: "in an init container", policy: always, pod: "i:i a", sandboxes: 1, have: "i=run", change: dueAfter(time.Minute, 2), want: "KillPod, ended, overdue"},
		{name: "before there is a sandbox", policy: always, pod: "a", change: dueAfter(time.Minute, 2), want: "ended, overdue"},
		{name: "all had ended before", policy: never, pod: "a", sandboxes: 1, have: "a=0", change: dueAfter(10*time.Minute, 60), want: "KillPod, ended"},
		{name: "one had ended too late", policy: never, pod: "a b", sandboxes: 1, have: "a=0 b=0", change: dueAfter(80*time.Second, 60), want: "KillPod, ended, overdue"},
		{name: "a back-off ends before", policy: always, pod: "a", sandboxes: 1, have: "a#1=1", change: both(dueAfter(time.Hour, 1), at(statusMinute(1).Add(35*time.Second))), want: "wait 5s a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := statusPod(tc.policy, strings.Fields(tc.pod)...)
			w := World{Observed: statusObserved(t, tc.sandboxes, strings.Fields(tc.have)...), Now: someHour}
			if tc.change != nil {
				tc.change(pod, &w)
			}
			if got := decisionText(Next(pod, w), w.Now); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// ahead permits podrun to create the named init containers while the previous ones run.
func ahead(names ...string) func(*corev1.Pod, *World) {
	return func(_ *corev1.Pod, w *World) {
		w.CreateAhead = map[string]bool{}
		for _, name := range names {
			w.CreateAhead[name] = true
		}
	}
}

func notReady(_ *corev1.Pod, w *World) { w.Observed.Sandboxes[0].Ready = false }

func hostsLost(_ *corev1.Pod, w *World) { w.Observed.HostsLost = true }

func at(now time.Time) func(*corev1.Pod, *World) {
	return func(_ *corev1.Pod, w *World) { w.Now = now }
}

func hashes(have, want string) func(*corev1.Pod, *World) {
	return func(_ *corev1.Pod, w *World) {
		w.Observed.Containers[0].Hash = have
		w.Hashes = map[string]string{w.Observed.Containers[0].Name: want}
	}
}

func hookIs(name string, state HookState) func(*corev1.Pod, *World) {
	return func(p *corev1.Pod, w *World) {
		FindContainer(p, name).Container.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		if state != "" {
			w.Observed.SetHook(w.Observed.Newest(name).ID, state)
		}
	}
}

func policyOf(name string, policy corev1.RestartPolicy) func(*corev1.Pod, *World) {
	return func(p *corev1.Pod, _ *World) {
		own := corev1.ContainerRestartPolicy(policy)
		FindContainer(p, name).Container.RestartPolicy = &own
	}
}

// rule adds a rule that restarts a container with policy Never when it exits with the given
// code.
func rule(name string, code int32) func(*corev1.Pod, *World) {
	return func(p *corev1.Pod, w *World) {
		policyOf(name, never)(p, w)
		FindContainer(p, name).Container.RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action:    corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code}},
		}}
	}
}

// ruleAll adds a rule that restarts all containers when a container with policy Never exits with
// the given code.
func ruleAll(name string, code int32) func(*corev1.Pod, *World) {
	return func(p *corev1.Pod, w *World) {
		rule(name, code)(p, w)
		FindContainer(p, name).Container.RestartPolicyRules[0].Action = corev1.ContainerRestartRuleActionRestartAllContainers
	}
}

func both(a, b func(*corev1.Pod, *World)) func(*corev1.Pod, *World) {
	return func(p *corev1.Pod, w *World) { a(p, w); b(p, w) }
}

// restarted marks the first run of each container as one that a restart of all containers ended.
func restarted(_ *corev1.Pod, w *World) { w.Observed.Restarted = firstRuns(w.Observed) }

func firstRuns(obs *Observed) map[string]bool {
	ids := map[string]bool{}
	for _, c := range obs.Containers {
		if c.Restarts == 0 {
			ids[c.ID] = true
		}
	}
	return ids
}

func startup(name string, succeeded bool) func(*corev1.Pod, *World) {
	return func(p *corev1.Pod, w *World) {
		FindContainer(p, name).Container.StartupProbe = &corev1.Probe{}
		w.Started = map[string]bool{w.Observed.Newest(name).ID: succeeded}
	}
}

func unhealthy(name string) func(*corev1.Pod, *World) {
	return func(_ *corev1.Pod, w *World) {
		w.Unhealthy = map[string]Unhealthy{w.Observed.Newest(name).ID: {Message: "Container " + name + " failed liveness probe"}}
	}
}

// dueAfter sets the pod's deadline, and sets the time to minute n.
func dueAfter(after time.Duration, n int) func(*corev1.Pod, *World) {
	return func(p *corev1.Pod, w *World) {
		seconds := int64(after / time.Second)
		p.Spec.ActiveDeadlineSeconds = &seconds
		w.Since, w.Now = statusMinute(1), statusMinute(n)
	}
}

func TestStartedGoal(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy corev1.RestartPolicy
		pod    string
		boxes  int
		have   string
		change func(*corev1.Pod, *World)
		mine   string // names of the containers that this command started
		want   string // description of the step that is still missing; "" if the pod has started
	}{
		{name: "nothing", policy: always, pod: "a", want: "container a has not started"},
		{name: "init runs", policy: always, pod: "i:i a", boxes: 1, have: "i=run", want: "init container i has not finished"},
		{name: "init failed", policy: always, pod: "i:i a", boxes: 1, have: "i=1", want: "init container i has not finished"},
		{name: "init of an old sandbox (k/k#140309)", policy: always, pod: "i:i a", boxes: 2, have: "i@0=0 a@0=run", want: "init container i has not finished"},
		{name: "no sidecar", policy: always, pod: "s:s a", boxes: 1, have: "a=run", want: "sidecar s is not running"},
		{name: "a sidecar has exited", policy: always, pod: "s:s a", boxes: 1, have: "s=0 a=run", want: "sidecar s is not running"},
		{name: "the app is created only", policy: always, pod: "a", boxes: 1, have: "a=created", want: "container a has not started"},
		{name: "in no state", policy: always, pod: "a", boxes: 1, have: "a=unknown", want: "container a has not started"},
		{name: "one of two", policy: always, pod: "a b", boxes: 1, have: "a=run", want: "container b has not started"},
		{name: "all run", policy: always, pod: "i:i s:s a b", boxes: 1, have: "i=0 s=run a=run b=run"},
		{name: "init's record was pruned", policy: always, pod: "i:i a", boxes: 1, have: "a=run"},
		{name: "it had exited before", policy: always, pod: "a", boxes: 1, have: "a=0", want: "container a is waiting to be restarted"},
		{name: "it has exited since", policy: always, pod: "a", boxes: 1, have: "a=0", mine: "a"},
		{name: "it has failed since", policy: onFailure, pod: "a", boxes: 1, have: "a=1", mine: "a"},
		{name: "it had completed", policy: never, pod: "a", boxes: 1, have: "a=0"},
		{name: "it had failed, Never", policy: never, pod: "a b", boxes: 1, have: "a=1 b=run"},
		{name: "it had completed in an old sandbox", policy: onFailure, pod: "a b", boxes: 2, have: "a@0=0 b@0=255 b@1#1=run"},
		{name: "it had failed in an old sandbox", policy: onFailure, pod: "a b", boxes: 2, have: "a@0=1 b@1#1=run", want: "container a has not started"},
		{name: "its hook is pending", policy: always, pod: "a", boxes: 1, have: "a=run", change: hookIs("a", HookPending), want: "the postStart hook of container a has not finished"},
		{name: "its hook is unknown", policy: always, pod: "a", boxes: 1, have: "a=run", change: hookIs("a", ""), want: "the postStart hook of container a has not finished"},
		{name: "its hook is done", policy: always, pod: "a", boxes: 1, have: "a=run", change: hookIs("a", HookDone)},
		{name: "a sidecar's hook is pending", policy: always, pod: "s:s a", boxes: 1, have: "s=run a=run", change: hookIs("s", HookPending),
			want: "the postStart hook of sidecar s has not finished"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := statusPod(tc.policy, strings.Fields(tc.pod)...)
			w := World{Observed: statusObserved(t, tc.boxes, strings.Fields(tc.have)...)}
			if tc.change != nil {
				tc.change(pod, &w)
			}
			mine := map[string]bool{}
			for _, name := range strings.Fields(tc.mine) {
				mine[w.Observed.Newest(name).ID] = true
			}
			done, waiting := StartedGoal(pod, w.Observed, mine)
			if waiting != tc.want || done != (tc.want == "") {
				t.Errorf("%v, %q; want %q", done, waiting, tc.want)
			}
		})
	}
}

// TestNextAgreesWithGoal checks that Next has an action or waits for an event while the goal is not
// reached. Otherwise a command would wait forever.
func TestNextAgreesWithGoal(t *testing.T) {
	states := []string{"", "run", "created", "unknown", "0", "1"}
	for _, policy := range []corev1.RestartPolicy{always, onFailure, never} {
		for _, boxes := range []int{0, 1, 2} {
			for n := range len(states) * len(states) * len(states) {
				var have []string
				for i, name := range []string{"s", "i", "a"} {
					if state := states[n/[]int{1, len(states), len(states) * len(states)}[i]%len(states)]; state != "" && boxes > 0 {
						have = append(have, name+"="+state)
					}
				}
				pod := statusPod(policy, "s:s", "i:i", "a")
				w := World{Observed: statusObserved(t, boxes, have...), Now: someHour}
				d := Next(pod, w)
				done, waiting := StartedGoal(pod, w.Observed, nil)
				if idle := len(d.Actions) == 0 && len(d.Watch) == 0 && d.Until.IsZero(); idle && !done && !d.Ended {
					t.Errorf("%s, %d sandboxes, %v: waits for nothing, while %s", policy, boxes, have, waiting)
				}
				if d.Ended && len(d.Watch) > 0 {
					t.Errorf("%s, %d sandboxes, %v: ended, and watches %v", policy, boxes, have, d.Watch)
				}
			}
		}
	}
}
