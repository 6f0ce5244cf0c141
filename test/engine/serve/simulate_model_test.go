package serve

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

// model judges a supervisor only by docs/serve.md and the kubelet's rules. Its inputs are the
// actions of the simulation, and the runtime's reports about containers. It shares no code with the
// supervisor.
type model struct {
	now func() time.Time

	mu   sync.Mutex
	pods map[string]*modelPod
	// the model judges nothing before this time, because the supervisor or the runtime is or recently
	// was unavailable
	blind time.Time
	// how many of the two, the supervisor and the runtime, are unavailable
	away  int
	left  time.Time // the time since which they are unavailable
	wrong []string

	sandboxes, starts, restarts, kills, backOffs, exits int
	latestOf                                            string
	// the maximum delay of a restart after the end of its back-off, except during outages
	latest time.Duration
}

// modelPod is the expected state of a pod.
type modelPod struct {
	name    string
	spec    simPod // the current definition of the pod
	wanted  bool   // true if a file or command defines the pod
	stopped bool
	changes []change
	since   time.Time // time of the last change
	runs    map[string]*modelRun
	// the time since which the pod's liveness probe has failed; zero if it succeeds
	sick    time.Time
	sandbox string // the newest sandbox; empty if there is none
	// true if an app container was created in the sandbox, which means that the init containers had
	// completed
	grown bool
}

// change is an action of the simulation on a pod. After the change, each container may be stopped
// or recreated once although it has not exited by itself.
type change struct {
	kind string
	at   time.Time
	// the time at which the change ceases to apply, unless the supervisor or the runtime was
	// unavailable since
	until time.Time
	// the actions that the change has already permitted: "kill a0", "start a0"
	used map[string]bool
}

// modelRun is the newest of the containers with the same name.
type modelRun struct {
	id, sandbox       string
	attempt           uint32
	running           bool
	started, finished time.Time
	code              int32
	image             string
	// the back-off of the next run, unless this run lasts 10 minutes
	delay time.Duration
	// deadline for the start of the next run; zero if no run must start
	due   time.Time
	noted bool
}

// The time limits within which a supervisor must act: after an exit in the fake runtime, which it
// lists every second; after a change, including a grace period of 5 s; and after an outage, during
// which it retries every 5 s.
const (
	simNotice = 1500 * time.Millisecond
	simChange = 40 * time.Second
	simBack   = 20 * time.Second
)

func (m *model) fail(p *modelPod, format string, args ...any) {
	changes := ""
	for _, c := range p.changes[max(0, len(p.changes)-4):] {
		changes += fmt.Sprintf(" %s@%s", c.kind, c.at.Format("15:04:05.0"))
	}
	m.wrong = append(m.wrong, fmt.Sprintf("%s pod %s (%s, wanted %v, stopped %v; changes%s): %s", m.now().Format("02 15:04:05.000"),
		p.name, p.spec, p.wanted, p.stopped, changes, fmt.Sprintf(format, args...)))
}

// change records an action of the simulation on a pod.
func (m *model) change(name, kind string, f func(*modelPod)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[name]
	p.changes = append(p.changes, change{kind: kind, at: m.now(), until: m.now().Add(simChange), used: map[string]bool{}})
	if n := len(p.changes); n > 50 {
		p.changes = slices.Clone(p.changes[n-20:])
	}
	p.since, p.sick = m.now(), time.Time{}
	for _, r := range p.runs {
		if !r.due.IsZero() && r.due.Before(m.now().Add(simChange)) {
			r.due = m.now().Add(simChange)
		}
	}
	if f != nil {
		f(p)
	}
}

// forget drops pending restarts, because the pod was stopped, deleted or recreated.
func (p *modelPod) forget() {
	for _, r := range p.runs {
		r.due = time.Time{}
	}
}

// goAway records that the supervisor or the runtime has become unavailable. back records that
// it is available again.
func (m *model) goAway() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away++; m.away == 1 {
		m.left = m.now()
	}
}

func (m *model) back() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away--; m.away > 0 {
		return
	}
	m.blind = m.now().Add(simBack)
	for _, p := range m.pods {
		for i := range p.changes {
			if c := &p.changes[i]; c.until.After(m.left) {
				c.until = m.blind.Add(simChange)
			}
		}
	}
}

func (m *model) quiet() bool { return m.away == 0 && !m.now().Before(m.blind) }

// allows reports whether a change of the pod permits stopping or creating a container now. If so,
// it marks the change as used for this action.
func (m *model) allows(p *modelPod, what string) bool {
	for i := range p.changes {
		c := &p.changes[i]
		inTime := m.now().Before(c.until) || m.away > 0 && c.until.After(m.left)
		if inTime && !c.used[what] {
			c.used[what] = true
			return true
		}
	}
	return false
}

// started processes the start of a container.
func (m *model) started(c *runtimeapi.ContainerStatus, sandbox *runtimeapi.PodSandboxStatus) {
	name, at := c.GetMetadata().GetName(), time.Unix(0, c.GetStartedAt())
	p := m.pods[sandbox.GetMetadata().GetName()]
	m.starts++
	last := p.runs[name]
	next := &modelRun{id: c.GetId(), sandbox: sandbox.GetId(), attempt: c.GetMetadata().GetAttempt(), running: true, started: at, image: c.GetImage().GetImage()}
	p.runs[name] = next
	switch {
	case !p.wanted:
		m.fail(p, "%s was started, but nothing asks for the pod", name)
	case p.stopped:
		m.fail(p, "%s was started, but the pod is stopped", name)
	case last != nil && last.running:
		m.fail(p, "%s was started twice", name)
	case last == nil && next.attempt == 0:
	case last == nil:
		m.fail(p, "%s begins with attempt %d", name, next.attempt)
	case next.attempt != last.attempt+1:
		m.fail(p, "%s has attempt %d after %d", name, next.attempt, last.attempt)
	case next.image != last.image:
		if !m.allows(p, "image "+name) {
			m.fail(p, "%s has another image for nothing", name)
		}
	default:
		m.restarted(p, name, last, next)
	}
	if strings.HasPrefix(name, "a") {
		p.grown = true
	}
}

// restarted checks the restart of a container.
func (m *model) restarted(p *modelPod, name string, last, next *modelRun) {
	m.restarts++
	long := last.finished.Sub(last.started) >= 10*time.Minute
	delay := last.delay
	if long {
		delay = 0
	}
	next.delay = min(max(2*last.delay, 10*time.Second), 5*time.Minute)
	if long {
		next.delay = 10 * time.Second
	}
	if next.sandbox != last.sandbox {
		// The pod may have a new sandbox, in which each container is started once.
		return
	}
	if !p.spec.restarts(name, last.code) && !m.allows(p, "again "+name) {
		m.fail(p, "%s exited with %d for good, and was restarted", name, last.code)
	}
	if delay > 0 {
		m.backOffs++
	}
	early := last.finished.Add(delay).Sub(next.started)
	if early > 0 && !m.allows(p, "again "+name) {
		m.fail(p, "%s was restarted %s too early: its back-off is %s", name, early, delay)
	}
	if m.quiet() && !last.due.IsZero() && (p.grown || name == "side") && m.now().After(p.since.Add(simChange)) {
		m.latest = max(m.latest, -early)
	}
}

// exited processes the exit of a container.
func (m *model) exited(c *runtimeapi.ContainerStatus, sandbox *runtimeapi.PodSandboxStatus) {
	p := m.pods[sandbox.GetMetadata().GetName()]
	name := c.GetMetadata().GetName()
	r := p.runs[name]
	if r == nil || r.id != c.GetId() || !r.running {
		// The container was never started.
		return
	}
	r.running, r.finished, r.code = false, time.Unix(0, c.GetFinishedAt()), c.GetExitCode()
	m.exits++
	sick := p.sick
	if name == "a0" {
		p.sick = time.Time{}
	}
	switch {
	case r.code < 128:
	case name == "a0" && !sick.IsZero() && r.code != 255:
		m.kills++
		if early := sick.Add(10 * time.Second).Sub(r.finished); early > 0 {
			m.fail(p, "%s was killed %s before its liveness probe could have failed 3 times", name, early)
		}
	case p.over():
		// These are the stops of a terminated pod's remaining containers.
		m.kills++
	case m.allows(p, "kill "+name):
		m.kills++
	default:
		m.fail(p, "%s was stopped for nothing (code %d)", name, r.code)
	}
	if p.wanted && !p.stopped && p.spec.restarts(name, r.code) && !p.over() && (p.grown || name != "init" || r.code != 0) {
		delay := r.delay
		if r.finished.Sub(r.started) >= 10*time.Minute {
			delay = 0
		}
		r.due = r.finished.Add(delay).Add(simNotice)
	}
}

// over reports whether a pod has terminated permanently, so that podrun does not restart its
// containers.
func (p *modelPod) over() bool {
	if r := p.runs["init"]; r != nil && !r.running && r.code != 0 && !p.spec.restarts("init", r.code) {
		return true
	}
	if !p.grown {
		return false
	}
	for i := range p.spec.apps {
		name := fmt.Sprintf("a%d", i)
		if r := p.runs[name]; r == nil || r.running || p.spec.restarts(name, r.code) {
			return false
		}
	}
	return true
}

// waits reports whether a container waits for a preceding sidecar that has exited.
func (p *modelPod) waits(name string) bool {
	side := p.runs["side"]
	return p.spec.side && !p.grown && name != "side" && side != nil && !side.running
}

// lacks describes a container of the pod that is neither running nor in back-off. It returns "" if
// there is none.
func (p *modelPod) lacks(now time.Time) string {
	names := []string{"side"}
	if !p.spec.side {
		names = nil
	}
	if p.waits("a0") && !p.runs["side"].due.IsZero() {
		return ""
	}
	if p.spec.init && !p.grown {
		r := p.runs["init"]
		switch {
		case r == nil:
			return "its init container was not started"
		case r.running || !r.due.IsZero() || r.code == 0 && now.Before(r.finished.Add(5*time.Second)):
			return ""
		case r.code != 0:
			return "its init container was not restarted"
		}
	}
	for i := range p.spec.apps {
		names = append(names, fmt.Sprintf("a%d", i))
	}
	for _, name := range names {
		r := p.runs[name]
		if r == nil || !r.running && r.due.IsZero() && p.spec.restarts(name, r.code) {
			return name + " does not run"
		}
	}
	return ""
}

// check compares the containers in the runtime (here) with their expected state.
func (m *model) check(here []critest.Container, pods map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.quiet() {
		return
	}
	alive := map[string]int{}
	for _, c := range here {
		alive[pods[c.SandboxID]]++
	}
	for _, p := range m.pods {
		settled := m.now().After(p.since.Add(simChange)) && m.now().After(m.blind.Add(simChange))
		if !p.wanted && settled && alive[p.name] > 0 {
			m.fail(p, "%d containers are left", alive[p.name])
			p.since = m.now()
		}
		if !p.wanted || p.stopped || p.over() {
			continue
		}
		for name, r := range p.runs {
			late := max(m.now().Sub(r.due), 0)
			if !r.running && !r.due.IsZero() && late > 0 && !r.noted && !p.waits(name) && m.now().After(p.since.Add(simChange)) {
				r.noted = true
				m.fail(p, "%s exited with %d at %s and was not restarted by %s", name, r.code, r.finished.Format("15:04:05.000"), r.due.Format("15:04:05.000"))
			}
		}
		if why := p.lacks(m.now()); settled && why != "" {
			m.fail(p, "%s", why)
			p.since = m.now()
		}
		if settled && !p.sick.IsZero() && m.now().After(p.sick.Add(15*time.Second+2*simNotice)) && m.now().After(m.blind.Add(15*time.Second)) {
			m.fail(p, "its liveness probe fails since %s, and it was not killed", p.sick.Format("15:04:05"))
			p.sick = time.Time{}
		}
	}
}
