package stop

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/podrun/podrun/container/probe"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// probeReadiness runs the readiness probes of containers while their preStop hooks run, until the
// returned function is called. As in the kubelet, startup and liveness probes end when a pod is
// stopped, but readiness probes continue: a Service without ready pods uses the terminating ones that
// still serve. It does nothing if no hook runs, or if the pod's worker runs all probes.
func (s *Stopper) probeReadiness(ctx context.Context, list []*stop) (end func()) {
	hooks := slices.ContainsFunc(list, func(st *stop) bool { return st.hook != nil })
	containers := s.readinessOf(list)
	if !hooks || s.pod.Prober != nil || len(containers) == 0 {
		return func() {}
	}
	changed := wait.NewSignal()
	prober := probe.NewProber(probe.Options{
		Exec: func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, int32, error) {
			resp, err := s.pod.Node.Client.ExecSync(ctx, id, command, timeout)
			return resp.GetStdout(), resp.GetStderr(), resp.GetExitCode(), err
		},
		Emit:   s.pod.Journal.Emit,
		Report: func(string, probe.Kind, bool, string) { changed.Send() },
	})
	prober.Set(containers)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				s.recordReadiness(ctx, prober.Results().Ready)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		prober.Stop()
	}
}

// readinessOf returns the containers of the list that have a readiness probe.
func (s *Stopper) readinessOf(list []*stop) (out []probe.Container) {
	sb := s.pod.Observed.Sandbox()
	if sb == nil {
		return nil
	}
	ip := ""
	if ips := slices.Concat(lifecycle.OrderIPs(sb.IPs, s.pod.Plan.NodeIPs), s.pod.Plan.NodeIPs); len(ips) > 0 {
		ip = ips[0]
	}
	for _, st := range list {
		spec := lifecycle.FindContainer(s.pod.Spec(), st.Name)
		if spec.Container == nil || spec.Container.ReadinessProbe == nil {
			continue
		}
		plans := slices.DeleteFunc(probe.All(s.pod.Plan.ID, spec.Container), func(p probe.Plan) bool { return p.Kind != probe.Readiness })
		before := s.pod.Observed.Probes[st.ID]
		out = append(out, probe.Container{
			ID:         st.ID,
			Init:       spec.Init,
			StartedAt:  st.StartedAt,
			PodIP:      ip,
			Plans:      plans,
			WasStarted: true,
			WasReady:   before.Ready,
		})
	}
	return out
}

// recordReadiness records results of readiness probes for other processes: `serve` updates the
// endpoints of Services when the owner record changes. An error means that the record is outdated,
// which does not prevent the stop.
func (s *Stopper) recordReadiness(ctx context.Context, ready map[string]bool) {
	id := s.pod.Plan.ID
	err := s.lease.Lock.Amend(ctx, func(*store.OwnerRecord) {
		_ = store.UpdatePodState(s.pod.Plan.Layout, id.UID, func(state *store.PodState) {
			state.Probes = maps.Clone(state.Probes)
			state.ProbedAt = time.Now()
			if state.Probes == nil {
				state.Probes = map[string]lifecycle.Probed{}
			}
			for container, is := range ready {
				state.Probes[container] = lifecycle.Probed{Started: true, Ready: is}
			}
		})
	})
	if changed := s.pod.Node.Observer.Changed; changed != nil && err == nil {
		changed(id)
	}
}
