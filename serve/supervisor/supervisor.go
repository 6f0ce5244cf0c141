package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// Options are the inputs of a Supervisor.
type Options struct {
	// Sources reads the manifest directories; it is nil if there are none.
	Sources Sources
	// Changed receives a signal when the result of Sources may have changed.
	Changed <-chan struct{}
	// Jobs runs Jobs and CronJobs until its context ends; it may be nil.
	Jobs func(context.Context)
	// HasPod reports whether a Job currently has the pod. Forgotten is called after the supervisor has
	// forgotten a pod that no source defines; it must not block. Both may be nil.
	HasPod    func(identity.Pod) bool
	Forgotten func()
	// StateChanges receives the names of pods whose state on disk may have changed. An empty name means
	// all pods. If StateChanges is nil, the supervisor polls the state.
	StateChanges <-chan identity.Pod
	// Reports receives changes of pods, for a source that needs their status; it may be nil.
	Reports Reports
	// Taken is called with the content of the manifest directories before the supervisor applies this
	// content. It must not call the runtime. It may be nil.
	Taken func(context.Context, *source.Snapshot, *source.Desired)
	// Locked is called when this process has become the supervisor of the root directory; it may
	// be nil.
	Locked func()
	// Starting is called before the supervisor applies a pod that is not on this host. It must not
	// block; it may be nil.
	Starting func(identity.Pod)
	// Listed is called after each complete list of the runtime's pods; see observe.Hub.
	Listed func(at time.Time, took, interval time.Duration)
	// Evicted is called after each eviction of a pod, with the kubelet's name of the eviction
	// signal. It may be nil.
	Evicted func(signal string)
	// RolledBack is called after each rollback of a pod, with the reason. It may be nil.
	RolledBack func(reason string)
	// AllowKubelet allows pods on a host with a kubelet.
	AllowKubelet bool
	// Ready is called when the supervisor has read the directories and supervises every pod.
	Ready func()
	// Progress is called every Heartbeat with the state of the supervisor, as long as no
	// worker is stuck.
	Progress  func(Summary)
	Heartbeat time.Duration // 0 means 10 s
	// RotateLogs is called at intervals with the running containers, from one goroutine; it may be
	// nil.
	RotateLogs      func(context.Context, []observe.Running)
	RotateLogsEvery time.Duration // 0 means 10 s
	// Stats reads the resource usage on which evictions are based. If it is nil, the supervisor
	// evicts no pod and removes no image.
	Stats Stats
	// Images provides access to the runtime's images, to remove the unused ones. If it is nil, the
	// supervisor removes no image.
	Images Images
	// Shutdowns connects to the service that announces shutdowns of this host; it may be nil.
	Shutdowns func(context.Context) (Shutdowns, error)
	// Collect removes leftovers of deleted pods. It is called every 5 minutes, from one goroutine;
	// it may be nil.
	Collect func(context.Context)
}

// Sources reads the definitions of pods, for example with source.Reader and source.Merge.
type Sources interface {
	// Read reads the directories. The error is that of the context.
	Read(ctx context.Context) (*source.Snapshot, *source.Desired, error)
}

// Supervisor supervises the pods of one root directory.
type Supervisor struct {
	options  Options
	hub      *observe.Hub
	workers  sync.WaitGroup
	pressure pressure
	rounds   *rounds // of measurements of volumes
	images   imageUse
	shutdown shuttingDown
	turns    turns
	rolls    rolls
	// published receives a signal when the list of pods that podrun could not start may have
	// changed.
	published wait.Signal

	// earlier are the definitions that the previous supervisor could not put into effect. Run sets it before the first
	// pod; nothing changes it afterwards.
	earlier map[identity.Pod]store.Pending

	mu       sync.Mutex
	node     *node.Node
	pods     map[identity.Pod]*pod // the supervised pods by namespace and name
	snapshot *source.Snapshot      // nil until the directories have been read
	desired  map[identity.Pod]int  // index in want.Pods
	want     *source.Desired
	// templates are the hashes of the definitions of workloads with replicas in want, as far as they were computed.
	templates map[string]string
	checked   time.Time // when take last made all pods compare their situations with their steps
}

// errChanged ends a step because the pod's situation requires another one.
var errChanged = errors.New("the pod's state changed")

// pollEvery is the interval at which the supervisor reads the state on disk if it receives no
// signals of changes. At the same interval, it searches for pods whose owner was killed.
const pollEvery = 2 * time.Second

// New returns a supervisor for a node's pods.
func New(n *node.Node, o Options) *Supervisor {
	if o.Heartbeat <= 0 {
		o.Heartbeat = 10 * time.Second
	}
	s := &Supervisor{options: o, hub: observe.NewHub(n.Client), pods: map[identity.Pod]*pod{}, published: wait.NewSignal(), rounds: newRounds()}
	s.shutdown.reloaded = wait.NewSignal()
	s.hub.Report = s.reportRuntime
	s.hub.Listed = o.Listed
	s.hub.Turned = s.turns.listed
	s.Reload(n)
	return s
}

// Reload makes the supervisor continue with new settings. Pods keep the settings with which
// they were applied.
func (s *Supervisor) Reload(n *node.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A restarted kubelet would retry every image.
	n.Settings.RetryPullAlways = true
	n.Unattended = true
	n.Puller = n.NewPuller()
	n.Facts = newFacts(n).read
	s.node = n
	for _, p := range s.pods {
		p.reload()
	}
	s.shutdown.reloaded.Send()
}

// Run supervises pods until ctx ends, or until the root directory is lost, which is an error. Containers continue to
// run after that. If another supervisor uses the root directory, Run returns an error and supervises nothing.
func (s *Supervisor) Run(ctx context.Context) error {
	lock, err := s.lock(ctx)
	if lock == nil || err != nil {
		return err
	}
	defer lock.Unlock()
	if s.options.Locked != nil {
		s.options.Locked()
	}
	s.earlier = map[identity.Pod]store.Pending{}
	for _, p := range store.LastPending(s.current().Layout()) {
		s.earlier[identity.Pod{Namespace: p.Namespace, Name: p.Name}] = p
	}
	if err := s.rolls.restore(s.current().Layout()); err != nil {
		s.current().SendWarnings(problem.List{problem.WarningOf(err)})
	}
	inner, cancel := context.WithCancel(ctx)
	// In any case, all goroutines must end before Run releases the lock to another supervisor. The
	// loops must end before the workers, because loops start workers.
	defer s.workers.Wait()
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()
	shutdownWatch{s}.resume(inner)
	s.hub.Check(inner)
	loops.Go(func() { s.hub.Run(inner) })
	err = s.readSources(inner)
	if err == nil {
		err = s.scan(inner)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if s.options.Ready != nil {
		s.options.Ready()
	}
	loops.Go(func() { s.watchSources(inner) })
	loops.Go(func() { s.watchState(inner) })
	loops.Go(func() { s.heartbeat(inner) })
	loops.Go(func() { s.publish(inner) })
	s.maintain(inner, &loops)
	return s.watchRoot(ctx, lock)
}

// watchRoot waits until ctx ends. It returns an error as soon as the root directory is lost: podrun then has no state of
// the pods, and must not write a new one at the same path.
func (s *Supervisor) watchRoot(ctx context.Context, lock *store.ServeLock) error {
	for wait.SleepPeriod(ctx, pollEvery) == nil {
		if layout := s.current().Layout(); lock.Lost(layout) {
			return &problem.Error{Kind: problem.Runtime, Object: "root directory " + layout.RootDir,
				Err:  errors.New("was removed, moved or unmounted while podrun serve supervised its pods; their containers keep running"),
				Hint: "restore the directory, and start podrun serve again"}
		}
	}
	return nil
}

// maintain starts the tasks that concern the whole node.
func (s *Supervisor) maintain(ctx context.Context, loops *sync.WaitGroup) {
	if s.options.Jobs != nil {
		loops.Go(func() { s.options.Jobs(ctx) })
	}
	if s.options.RotateLogs != nil {
		loops.Go(func() { s.rotateLogs(ctx) })
	}
	if s.options.Stats != nil {
		loops.Go(func() { evictor{s}.watch(ctx) })
		loops.Go(func() { s.measureVolumes(ctx) })
	}
	if s.options.Stats != nil && s.options.Images != nil {
		loops.Go(func() { s.collectImages(ctx) })
	}
	if s.options.Shutdowns != nil {
		loops.Go(func() { shutdownWatch{s}.watch(ctx) })
	}
	if s.options.Collect != nil {
		loops.Go(func() {
			for wait.SleepPeriod(ctx, collectEvery) == nil {
				s.options.Collect(ctx)
			}
		})
	}
}

// reportRuntime reports that the runtime does not respond, or that it responds again.
func (s *Supervisor) reportRuntime(down time.Time) {
	p := problem.Problem{Object: "container runtime " + s.current().Client.Endpoint(), Warning: true,
		Message: "does not answer: containers keep running, but podrun restarts none until the runtime answers"}
	if !down.IsZero() {
		p.Message = fmt.Sprintf("answers again after %s", time.Since(down).Round(time.Second))
	}
	s.current().SendWarnings(problem.List{p})
}

// lock makes this process the only supervisor of the root directory. If the lock is taken, it tries again for
// lockLimit, because a command that checks whether a supervisor is running locks the file for a moment. If
// ctx ends, it returns nil.
func (s *Supervisor) lock(ctx context.Context) (*store.ServeLock, error) {
	for end := time.Now().Add(lockLimit); ; {
		lock, err := store.TryServeLock(s.current().Layout(), s.current().Holder())
		if lock != nil || err != nil {
			return lock, err
		}
		if wait.Sleep(ctx, 20*time.Millisecond) != nil {
			return nil, nil
		}
		if time.Now().After(end) {
			return nil, &problem.Error{Kind: problem.Refused, Object: "root directory " + s.current().Layout().RootDir,
				Err: errors.New("another podrun serve process supervises its pods"), Hint: "stop that process, or use another --root-dir"}
		}
	}
}

// lockLimit is the time for which lock tries again. The kernel may throttle a command, because of a CPU quota,
// while the command holds the lock for its check.
const lockLimit = time.Second

// current returns the node with the settings of the last reload.
func (s *Supervisor) current() *node.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// readSources reads the manifest directories and notifies the pods that changed.
func (s *Supervisor) readSources(ctx context.Context) error {
	if s.options.Sources == nil {
		s.take(ctx, &source.Snapshot{}, source.Merge(&source.Snapshot{}))
		return nil
	}
	snapshot, want, err := s.options.Sources.Read(ctx)
	if err != nil {
		return err
	}
	s.take(ctx, snapshot, want)
	return nil
}

// take processes the content of the manifest directories. It must not be called concurrently.
func (s *Supervisor) take(ctx context.Context, snapshot *source.Snapshot, want *source.Desired) {
	s.mu.Lock()
	n, before, last := s.node, s.want, s.snapshot
	s.mu.Unlock()
	// s.mu must not be held here, because warnings go to stderr, whose reader may have stopped
	// reading.
	n.SendWarnings(snapshot.News)
	n.SendWarnings(want.News(before))
	if s.options.Taken != nil {
		s.options.Taken(ctx, snapshot, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = snapshot
	s.want = want
	s.desired = map[identity.Pod]int{}
	s.templates = map[string]string{}
	for i := range want.Pods {
		o := want.Pods[i].Object
		id := identity.Pod{Namespace: o.Namespace, Name: o.Name}
		s.desired[id] = i
		s.add(ctx, id)
	}
	if before != nil && source.Same(snapshot, want, last, before) && time.Since(s.checked) < checkEvery-wait.Alignment {
		return
	}
	s.checked = time.Now()
	for _, p := range s.pods {
		p.check()
	}
}

// checkEvery is the time after which all pods compare their situations with their steps even if the
// content of the manifest directories is unchanged, because an event may be lost, and because a
// checkpoint that becomes corrupt causes no event. The comparison reads five files of each pod.
const checkEvery = 5 * time.Minute

// add starts the supervision of a pod, unless it has already begun. s.mu must be held.
func (s *Supervisor) add(ctx context.Context, id identity.Pod) *pod {
	id.UID = ""
	p := s.pods[id]
	if p == nil {
		p = newPod(s, id)
		s.pods[id] = p
		s.workers.Go(func() { p.run(ctx) })
	}
	return p
}

// forget ends the supervision of a pod that does not exist, unless a new signal is pending for
// the pod.
func (s *Supervisor) forget(p *pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.changed)+len(p.owner) > 0 {
		return false
	}
	delete(s.pods, p.id)
	return true
}

// scan finds the pods that are on this host.
func (s *Supervisor) scan(ctx context.Context) error {
	layout := s.current().Layout()
	named, err := store.NamedPods(layout)
	if err != nil {
		return err
	}
	// Pods that an older version of podrun created have no owner record.
	stored, err := store.StoredPods(layout)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range append(named, stored...) {
		if id.Namespace != "" {
			s.add(ctx, id)
		}
	}
	return nil
}

// watchSources reads the manifest directories whenever they may have changed.
func (s *Supervisor) watchSources(ctx context.Context) {
	for {
		var again <-chan time.Time
		s.mu.Lock()
		if s.snapshot.ReadAgain > 0 {
			again = time.After(s.snapshot.ReadAgain)
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-s.options.Changed:
		case <-again:
		}
		if s.readSources(ctx) != nil {
			// the context has ended
			return
		}
	}
}

// watchState notifies pods whose state on disk may have changed.
func (s *Supervisor) watchState(ctx context.Context) {
	poll := time.NewTicker(wait.Period(pollEvery))
	defer poll.Stop()
	scanned := time.Now()
	for {
		s.turns.state.Store(time.Now().UnixNano())
		select {
		case <-ctx.Done():
			return
		case id := <-s.options.StateChanges:
			s.stateChanged(ctx, id)
		case now := <-poll.C:
			poll.Reset(wait.Period(pollEvery))
			s.pollIdle()
			if s.options.StateChanges == nil || now.Sub(scanned) > time.Minute {
				scanned = now
				s.rescan(ctx)
			}
		}
	}
}

// stateChanged makes a pod, or all pods if id is empty, read the state on disk.
func (s *Supervisor) stateChanged(ctx context.Context, id identity.Pod) {
	if id == (identity.Pod{}) {
		s.rescan(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.pods {
			p.check()
			p.ownerChanged()
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(ctx, id).ownerChanged()
}

// rescan calls scan, and prints its error.
func (s *Supervisor) rescan(ctx context.Context) {
	if err := s.scan(ctx); err != nil {
		s.current().SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// pollIdle makes pods check their state while they wait for another command to exit, because the
// exit may not cause a file event.
func (s *Supervisor) pollIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if p.waitsForOwner.Load() || s.options.StateChanges == nil {
			p.ownerChanged()
		}
	}
}

// resourcesFreed triggers another attempt to start pods that this host could not run before.
func (s *Supervisor) resourcesFreed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		p.freed()
	}
}

// rotateLogs periodically calls options.RotateLogs.
func (s *Supervisor) rotateLogs(ctx context.Context) {
	every := s.options.RotateLogsEvery
	if every <= 0 {
		every = rotateLogsEvery
	}
	for wait.SleepPeriod(ctx, every) == nil {
		s.options.RotateLogs(ctx, s.hub.Running())
	}
}

// rotateLogsEvery is the kubelet's containerLogMonitorInterval.
const rotateLogsEvery = 10 * time.Second
