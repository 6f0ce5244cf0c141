package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/container/probe"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// probeSettle is how long a container runs before its first probe. A kubelet notices up to a second
// after the start that the container is running. Without a delay, a probe with failureThreshold 1 would
// kill a container that has not opened its port yet.
const probeSettle = time.Second

// probes runs the probes of a pod's containers.
type probes struct {
	pod      *pod.Pod
	lease    *lease.Lease
	probing  atomic.Pointer[store.Generation] // the generation under which probes run; nil if none run
	reported sync.Map                         // IDs of the containers whose probes have had a result
	answered sync.Map                         // container name → whether the last readiness probe by this command succeeded
	wake     chan struct{}                    // ends a wait when there is a probe result
}

// startProbing starts probing the pod's containers. Probes run only while a command works on the pod.
func (w *probes) startProbing() {
	w.pod.Prober = probe.NewProber(probe.Options{
		Exec: func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, int32, error) {
			resp, err := w.pod.Node.Client.ExecSync(ctx, id, command, timeout)
			return resp.GetStdout(), resp.GetStderr(), resp.GetExitCode(), err
		},
		Emit:   w.pod.Journal.Emit,
		Settle: probeSettle,
		Owned:  w.ownsProbes,
		Probed: func(p probe.Plan, result probe.Outcome) {
			if count := w.pod.Node.Observer.Probed; count != nil {
				count(p.ID, p.Container, string(p.Kind), string(result))
			}
			if p.Kind == probe.Readiness {
				w.answered.Store(p.Container, result == probe.Success || result == probe.Warning)
				w.wakeUp()
			}
		},
		Report: func(id string, _ probe.Kind, _ bool, _ string) {
			w.reported.Store(id, true)
			w.wakeUp()
		},
	})
}

// ownsProbes reports whether this command still owns the pod that it probes.
func (w *probes) ownsProbes() bool {
	g := w.probing.Load()
	if g == nil {
		return false
	}
	now, err := w.lease.Lock.Current()
	return err == nil && now == *g
}

// wakeUp ends the worker's wait because there is a probe result.
func (w *probes) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// stopProbing stops the probes and records their results and the resulting status, for `get` and later
// commands.
func (w *probes) stopProbing() error {
	w.pod.Prober.Stop()
	owns := w.lease.Lock.Held != nil && w.lease.Lock.Owned()
	var err error
	if owns {
		err = w.keepProbed(true)
	}
	w.pod.Prober = nil
	if owns && err == nil {
		err = w.pod.KeepStatus(w.lease.Lock.Ending)
	}
	return err
}

// pause stops the probes because another command owns the pod.
func (w *probes) pause() {
	w.probing.Store(nil)
	w.pod.Prober.Set(nil)
}

// probe updates the probed containers to those that are currently running.
func (w *probes) probe() {
	if mine := w.lease.Lock.Mine; w.probing.Load() == nil || *w.probing.Load() != mine {
		w.pod.Prober.Set(nil) // stops probes of an earlier ownership
		w.probing.Store(&mine)
	}
	sb := w.pod.Observed.Sandbox()
	if sb == nil {
		return
	}
	ip := ""
	if ips := lifecycle.OrderIPs(sb.IPs, w.pod.Plan.NodeIPs); len(ips) > 0 {
		ip = ips[0]
	} else if len(w.pod.Plan.NodeIPs) > 0 {
		ip = w.pod.Plan.NodeIPs[0]
	}
	var running []probe.Container
	for _, c := range lifecycle.SpecContainers(w.pod.Spec()) {
		have := w.pod.Observed.Container(c.Container.Name)
		plans := probe.All(w.pod.Plan.ID, c.Container)
		if have != nil && have.State == lifecycle.Running && len(plans) > 0 {
			before := w.pod.Observed.Probes[have.ID]
			running = append(running, probe.Container{ID: have.ID, Init: c.Init, StartedAt: have.StartedAt, PodIP: ip, Plans: plans,
				WasStarted: before.Started, WasReady: before.Ready})
		}
	}
	w.pod.Prober.Set(running)
}

// confirmed reports whether the readiness of the running containers is known from probes of this
// command, not from recorded results. Ready is the required result: a container is ready only if its
// last probe succeeded.
func (w *probes) confirmed(ready bool) bool {
	started, _, _ := w.pod.Probed()
	for _, c := range lifecycle.SpecContainers(w.pod.Spec()) {
		have := w.pod.Observed.Container(c.Container.Name)
		if c.Container.ReadinessProbe == nil || have == nil || have.State != lifecycle.Running {
			continue
		}
		succeeded, answered := w.answered.Load(have.Name)
		probing := c.Container.StartupProbe == nil || started[have.ID]
		if ready && succeeded != true || probing && !answered {
			return false
		}
	}
	return true
}

// keepProbed records the current probe results, if they have changed, for `get` and later commands. At
// the end of the command it records all results; before, a container whose probes have no result yet
// keeps the result that an earlier command recorded.
func (w *probes) keepProbed(end bool) error {
	results := w.pod.Prober.Results()
	now := map[string]lifecycle.Probed{}
	for id, started := range results.Started {
		_, reported := w.reported.Load(id)
		before, had := w.pod.Observed.Probes[id]
		switch {
		case end || reported:
			now[id] = lifecycle.Probed{Started: started, Ready: results.Ready[id]}
		case had:
			now[id] = before
		}
	}
	return w.pod.KeepProbed(now, end)
}
