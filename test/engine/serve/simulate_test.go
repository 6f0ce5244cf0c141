package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// TestSimulatedDay runs a supervisor for simulated hours. Containers exit and fail their probes
// at random, while files change, directories disappear, commands act on the pods, the runtime
// is unavailable and the supervisor is restarted. A model of docs/serve.md checks every start
// and exit of a container.
//
// In ring 3, it simulates 24 hours with several seeds; `make torture` does so.
func TestSimulatedDay(t *testing.T) {
	length, seeds := time.Hour, 1
	if ring.Is(3) {
		length, seeds = 24*time.Hour, 4
	}
	for seed := range uint64(seeds) {
		if only := os.Getenv("PODRUN_SEED"); only != "" && only != fmt.Sprint(seed) {
			continue
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			begun := time.Now()
			synctest.Test(t, func(t *testing.T) { newSimulation(t, seed+1).run(length) })
			t.Logf("%s in %s", length, time.Since(begun).Round(10*time.Millisecond))
		})
	}
}

// simulation is a host, its supervisor and the random actions on them.
type simulation struct {
	*rig.Supervised
	rand  *rand.Rand
	model *model
	slots []*slot
	ends  func()    // function that ends an outage of the runtime; nil if the runtime is available
	until time.Time // time at which the outage ends
	did   map[string]int
	trace []string // the actions so far, with their times
}

// slot is a pod that is created and removed repeatedly.
type slot struct {
	name, path string // path is empty for the pod of a command
	here       bool
	file       simPod // the pod's definition in its file
	version    int    // version of the pod's ConfigMap
	broken     bool
	// applied is true if a command applied the pod after serve had applied its file: the removal of
	// the file then does not delete the pod. fileless is true if the file has been removed since.
	applied, fileless bool
}

const otherDir = "/run/podrun/manifests"

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{rand: rand.New(rand.NewPCG(seed, 15)), did: map[string]int{}}
	s.Supervised = &rig.Supervised{Host: rig.New(t), Files: rig.NewManifests(t, rig.ManifestDir, otherDir)}
	s.model = &model{now: time.Now, pods: map[string]*modelPod{}}
	for i := range 11 {
		sl := &slot{name: fmt.Sprintf("p%d", i)}
		switch {
		case i < 6:
			sl.path = rig.File(sl.name)
		case i < 9:
			sl.path = filepath.Join(otherDir, sl.name+".yaml")
		}
		s.slots = append(s.slots, sl)
		p := &modelPod{name: sl.name, runs: map[string]*modelRun{}}
		s.model.pods[sl.name] = p
		for _, c := range []string{"a0", "a1", "side", "init"} {
			s.Runtime.Script(sl.name+"/"+c, s.behaviors(c)...)
		}
		s.Runtime.ScriptExec(sl.name+"/a0", func([]string) *critest.Exec {
			s.model.mu.Lock()
			defer s.model.mu.Unlock()
			if p.sick.IsZero() {
				return &critest.Exec{}
			}
			return &critest.Exec{ExitCode: 1}
		})
	}
	return s
}

func (s *simulation) run(length time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	s.T.Cleanup(cancel)
	go s.model.watch(ctx, s.Runtime)
	synctest.Wait() // the model sees the starts of the first action, too
	goroutines := runtime.NumGoroutine()
	s.Start()
	end := time.Now().Add(length)
	for time.Now().Before(end) && s.model.good() {
		s.act()
		for range 1 + s.rand.IntN(60) {
			s.tick()
		}
		s.Runtime.ForgetCalls()
	}
	s.settle()
	s.Finish()
	cancel()
	time.Sleep(time.Second)
	if n := runtime.NumGoroutine(); n > goroutines {
		s.T.Errorf("%d goroutines, %d at the beginning", n, goroutines)
	}
	m := s.model
	for _, w := range m.wrong[:min(len(m.wrong), 10)] {
		s.T.Error(w)
	}
	if len(m.wrong) > 0 {
		s.T.Logf("before that: %s; warnings %q", strings.Join(s.trace[max(0, len(s.trace)-55):], ", "), s.Warnings()[max(0, len(s.Warnings())-20):])
	}
	s.T.Logf("%d sandboxes, %d starts, %d restarts (%d after a back-off), %d exits, of which %d were stops; latest restart %s after its back-off; actions %v",
		m.sandboxes, m.starts, m.restarts, m.backOffs, m.exits, m.kills, m.latest, s.did)
}

// judge compares the runtime with the model.
func (s *simulation) judge() {
	pods := map[string]string{}
	for _, b := range s.Runtime.Sandboxes() {
		pods[b.ID] = b.Config.GetMetadata().GetName()
	}
	s.model.check(s.Runtime.Containers(), pods)
}

// settle makes everything available, removes all files and pods, and checks that no pod
// remains.
func (s *simulation) settle() {
	if s.ends != nil {
		s.ends()
	}
	for _, dir := range []string{rig.ManifestDir, otherDir} {
		s.reach(dir)
	}
	time.Sleep(simBack + time.Second)
	// This removes first the files, and then the pods of commands.
	for range 2 {
		for _, sl := range s.slots {
			s.remove(sl)
		}
	}
	for range 120 {
		s.tick()
	}
}

// act executes a random action.
func (s *simulation) act() {
	for range 4 {
		if do := s.try(); do != "" {
			s.did[do]++
			s.note(do)
			return
		}
	}
}

// note records an action for the report of a violation.
func (s *simulation) note(do string) {
	s.trace = append(s.trace, time.Now().Format("15:04:05")+" "+do)
}

// try executes an action and returns its description; It returns "" if the action is currently not
// possible.
func (s *simulation) try() (do string) {
	sl := s.slots[s.rand.IntN(len(s.slots))]
	p := s.model.pods[sl.name]
	settled := s.ends == nil && s.model.quiet() && time.Since(p.since) > 2*simChange
	reachable := sl.path == "" || s.Files.Reachable(filepath.Dir(sl.path))
	switch n := s.rand.IntN(100); {
	case n < 2:
		do = "outage"
		s.outageFor(time.Duration(1+s.rand.IntN(600)) * time.Second)
	case n < 6:
		do = "restart of serve"
		s.restartAfter(time.Duration(s.rand.IntN(120)) * time.Second)
	case n < 7:
		do = "boot"
		s.boot()
	case n < 10:
		do = "directory"
		s.toggle(otherDir)
		do += fmt.Sprint(s.Files.Reachable(otherDir))
	case !sl.here && reachable:
		do = "add"
		s.add(sl)
	case n < 14 && reachable:
		do = "remove"
		s.remove(sl)
	// If a file becomes invalid during an outage, before serve has applied it, a serve process that
	// starts during the outage does not have its content, so the pod is not expected.
	case n < 17 && sl.here && sl.path != "" && !sl.fileless && reachable && s.ends == nil:
		do = "break"
		s.Files.Break(sl.path)
		sl.broken = true
	case settled && sl.here && reachable:
		do = s.actOn(sl, p, n)
	}
	return do
}

// actOn acts on a pod that has not been changed for a while.
func (s *simulation) actOn(sl *slot, p *modelPod, n int) string {
	byFile := sl.path != "" && !sl.fileless
	over, healthy := s.model.state(p)
	switch {
	case n < 32 && sl.path != "":
		return s.update(sl, p)
	case n < 34 && byFile && !p.stopped:
		return s.replaceWithoutServe(sl)
	case n < 40 && byFile && sl.file.config && !p.stopped:
		sl.version++
		s.model.change(sl.name, "config", nil)
		s.write(sl)
		return "config"
	case n < 50 && healthy && !p.stopped && !over && p.spec.probe:
		s.model.fallSick(p)
		return "sick"
	case n < 60 && !p.stopped:
		s.model.change(sl.name, "stop", nil)
		s.NoError(run.StopPods(s.T.Context(), s.Engine(), s.Known(sl.name), run.DeleteOptions{}))
		s.model.change(sl.name, "stopped", func(p *modelPod) { p.stopped = true; p.forget() })
		return "stop"
	case n < 80 && p.stopped:
		s.model.change(sl.name, "start", func(p *modelPod) { p.stopped = false })
		s.command(func() ([]run.Result, error) {
			return run.StartPods(s.T.Context(), s.Engine(), s.Known(sl.name), run.ApplyOptions{AllowKubelet: true, Timeout: 10 * time.Minute})
		})
		return "start"
	case n < 84 && byFile && !sl.broken && !p.stopped:
		s.model.change(sl.name, "delete", nil)
		s.NoError(s.Delete(run.DeleteOptions{}, sl.name))
		s.model.change(sl.name, "deleted", nil)
		sl.applied = false
		return "delete"
	case n < 90 && !p.stopped:
		s.model.change(sl.name, "restart command", nil)
		s.command(func() ([]run.Result, error) {
			return rig.RestartPods(s.T.Context(), s.Engine(), s.Known(sl.name), run.ApplyOptions{AllowKubelet: true, Timeout: 10 * time.Minute})
		})
		return "restart"
	case n < 95 && !p.stopped:
		spec := p.spec
		spec.args += 1000
		s.model.change(sl.name, "apply", func(p *modelPod) { p.spec = spec })
		s.command(func() ([]run.Result, error) { return s.ApplyAll(s.T.Context(), s.texts(sl, spec)...) })
		sl.applied = sl.path != ""
		return "apply"
	case !over && !p.stopped:
		return s.loseSandbox(sl)
	}
	return ""
}

// command runs a command that may make a container exit. The model checks the consequences.
func (s *simulation) command(f func() ([]run.Result, error)) {
	if _, err := f(); err != nil {
		s.T.Error(err)
	}
}

func (s *simulation) loseSandbox(sl *slot) string {
	for _, b := range s.Runtime.Sandboxes() {
		if b.Ready && b.Config.GetMetadata().GetName() == sl.name {
			s.model.change(sl.name, "lost sandbox", nil)
			// The containers exit one after the other, so one of them may be restarted before the
			// sandbox is removed.
			s.model.change(sl.name, "lost containers", nil)
			if _, err := s.Runtime.StopPodSandbox(s.T.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: b.ID}); err != nil {
				s.T.Error(err)
			}
		}
	}
	return "lost sandbox"
}

// update changes fields in a file: either only fields that can be updated in place, or any
// fields.
func (s *simulation) update(sl *slot, p *modelPod) string {
	if p.stopped {
		return ""
	}
	kind := "new image"
	sl.file.image = 3 - sl.file.image
	if s.rand.IntN(2) == 0 {
		kind = "new definition"
		sl.file = s.spec()
	}
	s.model.change(sl.name, kind, func(p *modelPod) { p.take(sl.file) })
	s.write(sl)
	return kind
}

// take makes a definition the expected one.
func (p *modelPod) take(spec simPod) {
	p.spec = spec
	keep := map[string]bool{"a0": true, "a1": spec.apps > 1, "side": spec.side, "init": spec.init}
	for name := range p.runs {
		if !keep[name] {
			delete(p.runs, name)
		}
	}
}

func (s *simulation) write(sl *slot) {
	sl.broken, sl.applied, sl.fileless = false, false, false
	s.Files.Write(sl.path, s.texts(sl, sl.file)...)
}

func (s *simulation) add(sl *slot) {
	// If the removal of a pod is still pending, for example during an outage of the runtime, the
	// pod is not a new one.
	_, err := os.Stat(s.Layout().Owner(identity.Pod{Namespace: "default", Name: sl.name}))
	if sl.path == "" && (s.ends != nil || !s.model.quiet()) || err == nil {
		return
	}
	sl.here, sl.file = true, s.spec()
	s.model.change(sl.name, "add", func(p *modelPod) { p.wanted, p.stopped = true, false; p.forget(); p.take(sl.file) })
	if sl.path != "" {
		s.write(sl)
		return
	}
	s.command(func() ([]run.Result, error) { return s.ApplyAll(s.T.Context(), s.texts(sl, sl.file)...) })
}

func (s *simulation) remove(sl *slot) {
	if !sl.here || (sl.path == "" || sl.applied) && (s.ends != nil || !s.model.quiet()) {
		return
	}
	// The pod remains.
	if sl.applied && !sl.fileless {
		sl.fileless = true
		s.Files.Remove(sl.path)
		return
	}
	sl.here = false
	s.model.change(sl.name, "remove", func(p *modelPod) { p.wanted, p.stopped = false, false; p.forget() })
	if sl.path != "" && !sl.fileless {
		s.Files.Remove(sl.path)
		return
	}
	sl.applied, sl.fileless = false, false
	s.NoError(s.Delete(run.DeleteOptions{}, sl.name))
}

// replaceWithoutServe lets a command apply the pod of a file, and then removes the file, while
// no supervisor runs. The next supervisor must not delete the pod.
func (s *simulation) replaceWithoutServe(sl *slot) string {
	s.model.goAway()
	s.End()
	s.model.change(sl.name, "delete", nil)
	s.NoError(s.Delete(run.DeleteOptions{}, sl.name))
	s.Files.Remove(sl.path)
	sl.applied, sl.fileless = true, true
	s.model.change(sl.name, "apply", func(p *modelPod) { p.take(sl.file) })
	s.command(func() ([]run.Result, error) { return s.ApplyAll(s.T.Context(), s.texts(sl, sl.file)...) })
	s.Start()
	s.model.back()
	return "replace without serve"
}
