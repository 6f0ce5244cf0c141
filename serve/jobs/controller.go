package jobs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/schedule"
	"github.com/podrun/podrun/serve/source"
)

// Options are the inputs of a Controller.
type Options struct {
	Layout identity.Layout
	Holder string // names this process in the lock of the records
	// States reads the states of pods of Jobs in a namespace, by name. If the runtime does not answer, it
	// returns an error: the Jobs then wait.
	States func(ctx context.Context, namespace string, names []string) (map[string]schedule.PodState, error)
	Warn   func(problem.List)
	// Changed is called when the pods of Jobs have changed. It must not block.
	Changed func()
	Now     func() time.Time // nil is time.Now
}

// Controller runs the Jobs and CronJobs of one root directory.
type Controller struct {
	options Options
	wake    wait.Signal // receives a signal when a decision may be necessary

	mu sync.Mutex // guards the fields below
	// the content of the manifest directories; nil before the first read
	snapshot *source.Snapshot
	want     *source.Desired
	// the pods of all Jobs, sorted by namespace and name
	pods       []source.Pod
	unreadable map[string]error
	known      map[string]bool // namespace/name of the Jobs that have a record
	// a hash of the objects that were applied with CronJobs
	dependencies string
	unread       map[identity.Pod]bool // the active and stopping pods; true if there was an event of the pod after its state was read

	// Only the loop uses these fields.
	built  map[string]source.Pod // by the UID of the Job and the name of the pod
	warned map[string]string     // the last warning about an object, by kind, namespace and name
	// the objects about which the current pass has warned, or would have if they had a problem
	mentioned map[string]bool
	seen      [2]time.Time   // changedAt after the last pass
	last      *store.Records // the records after the last pass
	read      map[identity.Pod]schedule.PodState
	polled    time.Time // when the states of all pods were last read
}

// New returns a controller. Its pods are those of the records on disk.
func New(o Options) (*Controller, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Controller{
		options:   o,
		wake:      wait.NewSignal(),
		built:     map[string]source.Pod{},
		warned:    map[string]string{},
		mentioned: map[string]bool{},
		read:      map[identity.Pod]schedule.PodState{},
	}
	records, err := store.ReadRecords(o.Layout)
	if err != nil {
		return nil, err
	}
	c.publish(records)
	return c, nil
}

// Merge adds the pods of Jobs to the pods of the manifest directories. It keeps the Jobs and
// CronJobs that these directories define, for the next decision.
func (c *Controller) Merge(snapshot *source.Snapshot, want *source.Desired) (*source.Snapshot, *source.Desired) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot = snapshot
	c.want = want
	c.Wake()
	withRecords, withPods := *snapshot, *want
	withRecords.Records = c.options.Layout.Jobs()
	withRecords.Unreadable = c.unreadable
	withRecords.Undecided = map[string]bool{}
	for _, j := range want.Jobs {
		if !c.known[key(j.Job)] && c.unreadable[c.options.Layout.Job(j.Namespace, j.Name)] == nil {
			withRecords.Undecided[j.Path] = true
		}
	}
	taken := map[string]bool{}
	for i := range want.Pods {
		taken[want.Pods[i].Key()] = true
	}
	withPods.Pods = slices.Clone(want.Pods)
	for _, p := range c.pods {
		if !taken[p.Key()] {
			withPods.Pods = append(withPods.Pods, p)
		}
	}
	return &withRecords, &withPods
}

// Wake makes the controller decide again.
func (c *Controller) Wake() { c.wake.Send() }

// NoteChange makes the controller decide again if a pod is a pod of a Job, after it has read the state of this
// pod. It ignores the UID.
func (c *Controller) NoteChange(id identity.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id.UID = ""
	if _, ours := c.unread[id]; ours {
		c.unread[id] = true
		c.Wake()
	}
}

// Has reports whether a Job has a pod of this name that has not been stopped.
func (c *Controller) Has(id identity.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := slices.BinarySearchFunc(c.pods, id.String(), func(p source.Pod, key string) int { return cmp.Compare(p.Key(), key) })
	return found
}

const (
	// tick is the interval at which the controller compares the clock with the time of the next
	// decision, and checks for records that commands have changed. A timer alone would be late after
	// the clock is set.
	tick = time.Second
	// pollActive is the interval at which the controller reads the status of active pods even
	// without an event.
	pollActive = 10 * time.Second
	// pause is the minimum time between two decisions, so that the events of many pods cause only a few.
	pause = 50 * time.Millisecond
	// retryAfter is the delay after an error.
	retryAfter = 10 * time.Second
	// recheck is the maximum time between two decisions. Kernels before 6.13 set the modification times
	// of directories with a resolution of some milliseconds, so Run can miss a change of a record.
	recheck = time.Minute
)

// Run makes decisions when something has changed, until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	ticker := time.NewTicker(wait.Period(tick))
	defer ticker.Stop()
	for ctx.Err() == nil {
		next, err := c.Sync(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.warn(loopObject, "Jobs", err.Error())
			next = c.options.Now().Add(retryAfter)
		default:
			delete(c.warned, loopObject)
		}
		next = bounded(next, c.options.Now())
		if wait.Sleep(ctx, pause) != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
				waiting = false
			case <-ticker.C:
				ticker.Reset(wait.Period(tick))
				waiting = c.options.Now().Before(next) && c.changedAt() == c.seen
			}
		}
	}
}

// bounded limits the time of the next decision to recheck after now; zero means no decision. The
// result then has now's monotonic clock reading, so that it is not late if the clock is set back.
func bounded(next, now time.Time) time.Time {
	if last := now.Add(recheck); next.IsZero() || next.After(last) {
		return last
	}
	return next
}

// changedAt returns when the directories of the records were last modified.
func (c *Controller) changedAt() (at [2]time.Time) {
	for i, dir := range []string{c.options.Layout.Jobs(), c.options.Layout.CronJobs()} {
		if info, err := os.Stat(dir); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

// Sync makes one decision for all Jobs and CronJobs. It returns the time of the next decision;
// zero if only a change requires one.
func (c *Controller) Sync(ctx context.Context) (time.Time, error) {
	c.mu.Lock()
	snapshot, want := c.snapshot, c.want
	c.mu.Unlock()
	if want == nil {
		return time.Time{}, nil
	}
	before := c.last
	if before == nil || c.changedAt() != c.seen {
		var err error
		if before, err = store.ReadRecords(c.options.Layout); err != nil {
			return time.Time{}, err
		}
	}
	// Read the status without the lock: the runtime may hang.
	states, late := c.states(ctx, before)
	c.mentioned = map[string]bool{}
	lock, err := store.LockRecords(ctx, c.options.Layout, c.options.Holder)
	if err != nil {
		return time.Time{}, err
	}
	p, err := newPass(c, snapshot, want, states)
	if err == nil {
		err = p.run()
	}
	// Commands change records as soon as the lock is released.
	c.seen = c.changedAt()
	lock.Unlock()
	if p == nil {
		return time.Time{}, err
	}
	c.last = p.records
	if c.publish(p.records) {
		c.options.Changed()
	}
	maps.DeleteFunc(c.warned, func(object, _ string) bool { return !c.mentioned[object] && object != loopObject })
	if late {
		p.wake(p.now.Add(retryAfter))
	}
	return p.next, err
}

// states returns the states of the pods of all Jobs, by the UID of the Job and the name of the pod.
// It reads the states of stopping pods, of new pods, and of pods for which there was an event. It
// reads the other states every pollActive. It returns late if some states are unknown.
func (c *Controller) states(ctx context.Context, records *store.Records) (out map[string]map[string]schedule.PodState, late bool) {
	now := c.options.Now()
	since := now.Sub(c.polled)
	readAll := since < 0 || since >= pollActive // the clock may have been set back
	names := map[string][]string{}              // to read, by namespace
	needed := map[identity.Pod]bool{}
	c.mu.Lock()
	for _, r := range records.Jobs {
		for _, p := range r.Pods {
			if p.State != store.JobPodActive && p.State != store.JobPodStopping && !r.Deleting() {
				continue
			}
			id := identity.Pod{Namespace: r.Job.Namespace, Name: p.Name}
			needed[id] = true
			if _, read := c.read[id]; readAll || !read || c.unread[id] || p.State == store.JobPodStopping || r.Deleting() {
				names[id.Namespace] = append(names[id.Namespace], p.Name)
				if c.unread[id] {
					c.unread[id] = false
				}
			}
		}
	}
	c.mu.Unlock()
	maps.DeleteFunc(c.read, func(id identity.Pod, _ schedule.PodState) bool { return !needed[id] })
	for namespace, some := range names {
		states, err := c.options.States(ctx, namespace, some)
		for _, name := range some {
			id := identity.Pod{Namespace: namespace, Name: name}
			if state, ok := states[name]; ok && err == nil {
				c.read[id] = state
			} else {
				delete(c.read, id)
			}
		}
		// The supervisor reports a runtime that does not answer.
		late = late || err != nil
	}
	if readAll && !late {
		c.polled = now
	}
	return c.byJob(records), late
}

// byJob returns the states that were read, by the UID of the Job and the name of the pod. A pod that was not
// stopping when podrun read its state may exist now: the supervisor may have started it.
func (c *Controller) byJob(records *store.Records) map[string]map[string]schedule.PodState {
	out := map[string]map[string]schedule.PodState{}
	for _, r := range records.Jobs {
		states := map[string]schedule.PodState{}
		for _, p := range r.Pods {
			if state, ok := c.read[identity.Pod{Namespace: r.Job.Namespace, Name: p.Name}]; ok {
				state.Absent = state.Absent && p.State == store.JobPodStopping
				states[p.Name] = state
			}
		}
		out[string(r.Job.UID)] = states
	}
	return out
}

// warn reports a problem of an object, unless it was the last one reported for the object. An
// empty message means that the object has no problem.
func (c *Controller) warn(object, reason, message string) {
	c.mentioned[object] = true
	if c.warned[object] == message {
		return
	}
	c.warned[object] = message
	if message != "" {
		c.options.Warn(problem.List{{Object: object, Reason: reason, Message: message, Warning: true}})
	}
}

// loopObject is the object of errors of the loop.
const loopObject = "podrun serve"

// errNoPod means that podrun cannot make a pod of a Job's template any more.
var errNoPod = errors.New("podrun cannot read the pod template of the Job")
