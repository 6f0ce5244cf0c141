package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/podrun/podrun/probe"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// probeSettle is how long a container runs before it is first probed. A kubelet
// learns up to a second after its start that it runs; without such a pause, a
// probe that is allowed no failure would kill what has not opened its port yet.
const probeSettle = time.Second

// startProbing begins to probe the pod's containers, for as long as a command
// works on the pod: nobody does when none does.
func (s *Worker) startProbing() {
	s.wake = make(chan struct{}, 1)
	s.prober = probe.NewProber(probe.Options{
		Exec: func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, int32, error) {
			resp, err := s.Client.ExecSync(ctx, id, command, timeout)
			return resp.GetStdout(), resp.GetStderr(), resp.GetExitCode(), err
		},
		Emit:   s.journal.Emit,
		Settle: probeSettle,
		Owned:  s.ownsProbes,
		Report: func(id string, _ probe.Kind, _ bool, _ string) {
			s.reported.Store(id, true)
			s.wakeUp()
		},
	})
}

// ownsProbes tells whether this command still owns the pod that it probes.
func (s *Worker) ownsProbes() bool {
	g := s.probing.Load()
	if g == nil {
		return false
	}
	now, err := s.lock.Current()
	return err == nil && now == *g
}

// wakeUp ends the Worker's wait: something was found out.
func (s *Worker) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it will wake up as it is
	}
}

// stopProbing ends the probes and keeps what they found, for `get` and for the
// next command.
func (s *Worker) stopProbing() error {
	s.prober.Stop()
	var err error
	if s.lock.Held != nil && s.lock.Owned() {
		err = s.keepProbed(true)
	}
	s.prober = nil
	return err
}

// probe watches the containers that run now.
func (s *Worker) probe() {
	if mine := s.lock.Mine; s.probing.Load() == nil || *s.probing.Load() != mine {
		s.prober.Set(nil) // probes of an earlier ownership have ended
		s.probing.Store(&mine)
	}
	sb := s.obs.Sandbox()
	if sb == nil {
		return
	}
	ip := ""
	if ips := lifecycle.OrderIPs(sb.IPs, s.plan.NodeIPs); len(ips) > 0 {
		ip = ips[0]
	} else if len(s.plan.NodeIPs) > 0 {
		ip = s.plan.NodeIPs[0]
	}
	var running []probe.Container
	for _, c := range lifecycle.SpecContainers(s.pod()) {
		have := s.obs.Container(c.Container.Name)
		plans := probe.All(s.plan.ID, c.Container)
		if have != nil && have.State == lifecycle.Running && len(plans) > 0 {
			running = append(running, probe.Container{ID: have.ID, Init: c.Init, StartedAt: have.StartedAt, PodIP: ip, Plans: plans})
		}
	}
	s.prober.Set(running)
}

// probed is what the probes have found so far. Where none is run, what they
// last said to an earlier podrun counts.
func (s *Worker) probed() (started, ready map[string]bool, unhealthy map[string]lifecycle.Unhealthy) {
	started, ready = s.obs.Probed()
	if s.prober == nil {
		return started, ready, nil
	}
	results := s.prober.Results()
	maps.Copy(started, results.Started)
	maps.Copy(ready, results.Ready)
	unhealthy = map[string]lifecycle.Unhealthy{}
	for id, kill := range results.Kill {
		unhealthy[id] = lifecycle.Unhealthy{Message: kill.Message, Grace: kill.GraceSeconds}
	}
	return started, ready, unhealthy
}

// keepProbed writes down what the probes say now, if that has changed, for `get`
// and for commands that follow this one. At the end of the command that is
// everything; before, a container whose probes have not come to a result keeps
// what an earlier command found.
func (s *Worker) keepProbed(end bool) error {
	results := s.prober.Results()
	now := map[string]lifecycle.Probed{}
	for id, started := range results.Started {
		_, reported := s.reported.Load(id)
		before, had := s.obs.Probes[id]
		switch {
		case end || reported:
			now[id] = lifecycle.Probed{Started: started, Ready: results.Ready[id]}
		case had:
			now[id] = before
		}
	}
	if len(now) == 0 || maps.Equal(now, s.obs.Probes) {
		return nil
	}
	s.obs.Probes = now
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("keep the results of probes: %w", err)
	}
	file := s.plan.Layout.ProbeResults(s.plan.ID.UID)
	err = os.Mkdir(filepath.Dir(file), 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the pod was deleted meanwhile
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = store.WriteState(file, data, 0o640)
	}
	if err != nil {
		return fmt.Errorf("pod %s: keep the results of probes: %w", s.plan.ID, err)
	}
	return nil
}
