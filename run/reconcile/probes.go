package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/container/probe"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// probeSettle is the time between the start of a container and podrun's first probe of it. A kubelet
// detects that a container is running up to a second after its start. Without a similar delay, a
// probe with failureThreshold 1 would kill a container that has not opened its port yet.
const probeSettle = time.Second

// probes runs the probes of a pod's containers.
type probes struct {
	pod      *pod.Pod
	lease    *lease.Lease
	probing  atomic.Pointer[store.Generation] // the generation under which probes run; nil if no probes run
	checking sync.Mutex                       // guards owned; held during a check, so that concurrent probes share it
	owned    ownedAt                          // the last check of ownsProbes that succeeded
	reported sync.Map                         // IDs of the containers whose probes have returned a result
	answered sync.Map                         // container name → whether the last readiness probe by this command succeeded
	wake     wait.Signal                      // ends the worker's wait when a probe returns a result
}

// startProbing starts probing the pod's containers. Probes run only while the operation works on the
// pod.
func (ps *probes) startProbing() {
	ps.pod.Prober = probe.NewProber(probe.Options{
		Exec: func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, int32, error) {
			return ps.pod.Node.Client.ExecOutput(ctx, id, command, timeout)
		},
		Emit:   ps.pod.Journal.Emit,
		Settle: probeSettle,
		Owned:  ps.ownsProbes,
		Probed: func(p probe.Plan, result probe.Outcome) {
			if count := ps.pod.Node.Observer.Probed; count != nil {
				count(p.ID, p.Container, string(p.Kind), string(result))
			}
			if p.Kind == probe.Readiness {
				succeeded := result == probe.Success || result == probe.Warning
				// Only a different answer can change the result of confirmed. A wake-up is expensive,
				// because the worker then observes the pod again.
				if before, had := ps.answered.Swap(p.Container, succeeded); !had || before != succeeded {
					ps.wake.Send()
				}
			}
		},
		Report: func(id string, _ probe.Kind, _ bool, _ string) {
			ps.reported.Store(id, true)
			ps.wake.Send()
		},
	})
}

// ownedAt is a time at which the pod had the generation.
type ownedAt struct {
	at         time.Time
	generation store.Generation
}

// ownedFor is the time for which ownsProbes uses its last result. A pod's probes, which begin together,
// then need one check before them, and usually one after them. The worker checks the ownership again
// before it acts on a result.
const ownedFor = 20 * time.Millisecond

// ownsProbes reports whether this operation owned the pod that it probes within the last 20 ms.
func (ps *probes) ownsProbes() bool {
	g := ps.probing.Load()
	if g == nil {
		return false
	}
	ps.checking.Lock()
	defer ps.checking.Unlock()
	if ps.owned.generation == *g && time.Since(ps.owned.at) < ownedFor {
		return true
	}
	at := time.Now()
	now, err := ps.lease.Lock.Current()
	if err != nil || now != *g {
		return false
	}
	ps.owned = ownedAt{at, now}
	return true
}

// stopProbing stops the probes and records their results and the resulting status, for `get` and
// later commands.
func (ps *probes) stopProbing() error {
	ps.pod.Prober.Stop()
	owns := ps.lease.Lock.Held != nil && ps.lease.Lock.Owned()
	var err error
	if owns {
		err = ps.keepProbed(true)
	}
	ps.pod.Prober = nil
	if owns && err == nil {
		err = ps.pod.KeepStatus(ps.lease.Lock.Ending)
	}
	return err
}

// pause stops the probes because another command owns the pod.
func (ps *probes) pause() {
	ps.probing.Store(nil)
	ps.pod.Prober.Set(nil)
}

// probe makes the prober probe the containers that are currently running.
func (ps *probes) probe() {
	if mine := ps.lease.Lock.Mine; ps.probing.Load() == nil || *ps.probing.Load() != mine {
		// These probes belong to an earlier generation of the ownership.
		ps.pod.Prober.Set(nil)
		ps.probing.Store(&mine)
	}
	sb := ps.pod.Observed.Sandbox()
	if sb == nil {
		return
	}
	ip := ""
	if ips := lifecycle.OrderIPs(sb.IPs, ps.pod.Plan.NodeIPs); len(ips) > 0 {
		ip = ips[0]
	} else if len(ps.pod.Plan.NodeIPs) > 0 {
		ip = ps.pod.Plan.NodeIPs[0]
	}
	var running []probe.Container
	for _, c := range lifecycle.SpecContainers(ps.pod.Spec()) {
		have := ps.pod.Observed.Container(c.Container.Name)
		plans := probe.All(ps.pod.Plan.ID, c.Container)
		if have != nil && have.State == lifecycle.Running && len(plans) > 0 {
			before := ps.pod.Observed.Probes[have.ID]
			running = append(running, probe.Container{ID: have.ID, Init: c.Init, StartedAt: have.StartedAt, PodIP: ip, Plans: plans,
				WasStarted: before.Started, WasReady: before.Ready})
		}
	}
	ps.pod.Prober.Set(running)
}

// confirmed reports whether the readiness of the running containers is known from probes of this
// command, as opposed to recorded results. The argument ready is the required result: a container
// is ready only if its last probe succeeded.
func (ps *probes) confirmed(ready bool) bool {
	started, _, _ := ps.pod.Probed()
	for _, c := range lifecycle.SpecContainers(ps.pod.Spec()) {
		have := ps.pod.Observed.Container(c.Container.Name)
		if c.Container.ReadinessProbe == nil || have == nil || have.State != lifecycle.Running {
			continue
		}
		succeeded, answered := ps.answered.Load(have.Name)
		probing := c.Container.StartupProbe == nil || started[have.ID]
		if ready && succeeded != true || probing && !answered {
			return false
		}
	}
	return true
}

// keepProbed records the current probe results, for `get` and later commands, if they have changed. At
// the end of the command it records all results. Before that, it keeps the result of an earlier
// command for each container whose probes have no result yet.
func (ps *probes) keepProbed(end bool) error {
	results := ps.pod.Prober.Results()
	now := map[string]lifecycle.Probed{}
	for id, started := range results.Started {
		_, reported := ps.reported.Load(id)
		before, had := ps.pod.Observed.Probes[id]
		switch {
		case end || reported:
			now[id] = lifecycle.Probed{Started: started, Ready: results.Ready[id]}
		case had:
			now[id] = before
		}
	}
	return ps.pod.KeepProbed(now, end)
}
