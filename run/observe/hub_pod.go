package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
)

// Watch is a worker's subscription to a Hub. Only its worker may use it.
type Watch struct {
	hub  *Hub        // nil for a command
	mu   *sync.Mutex // the hub's
	uid  string
	news wait.Signal         // receives a value when one of the fields below is set
	pids map[string]pidWatch // the watched processes, by container ID

	// Guarded by mu. The states that the worker observed before it began to wait; nil if it is
	// not waiting.
	known     states
	unwatched int // running containers without a pidfd
	// true if the runtime's list differs from known
	stale  bool
	exited []string // IDs of containers whose processes have exited
}

// Watch adds a pod to the hub. The caller must call Close.
func (h *Hub) Watch(uid string) *Watch {
	w := newWatch(h, uid)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches[w] = true
	return w
}

func newWatch(h *Hub, uid string) *Watch {
	w := &Watch{hub: h, mu: &sync.Mutex{}, uid: uid, news: wait.NewSignal(), pids: map[string]pidWatch{}}
	if h != nil {
		w.mu = &h.mu
	}
	return w
}

// Close removes the pod from the hub.
func (w *Watch) Close() {
	if w.hub != nil {
		w.mu.Lock()
		delete(w.hub.watches, w)
		w.mu.Unlock()
	}
	for id, p := range w.pids {
		p.stop()
		delete(w.pids, id)
	}
}

// Hub returns the hub of the watch.
func (w *Watch) Hub() *Hub { return w.hub }

// Await waits until a container of d.Watch exits, d.Until has passed, a value arrives on wake, or the
// runtime's list differs from obs. It updates obs with the state of an exited container. If the list
// differed, Await returns stale, and the caller must observe the pod again. The error is the cause
// that ended ctx, or an error of the runtime.
func (w *Watch) Await(ctx context.Context, client *cri.Client, obs *lifecycle.Observed, d lifecycle.Decision, wake <-chan struct{}) (stale bool, err error) {
	return w.await(ctx, client, obs, d, wake, 0)
}

// await is Await. If the watch has no hub, relist is not 0; see AwaitChange.
func (w *Watch) await(ctx context.Context, client *cri.Client, obs *lifecycle.Observed, d lifecycle.Decision, wake <-chan struct{}, relist time.Duration) (stale bool, err error) {
	if err := w.arm(ctx, client, obs, d); err != nil {
		return false, err
	}
	var until, relisted, polled <-chan time.Time
	if !d.Until.IsZero() {
		until = time.After(time.Until(d.Until))
	}
	polls := poller{watch: w, client: client, obs: obs, verboseAt: time.Now()}
	if w.hub == nil {
		relisted = time.After(relist)
	}
	for waits := true; waits; {
		if w.hub == nil && len(w.pids) > 0 {
			polled = time.After(polls.next())
		}
		waits = false
		select {
		case <-ctx.Done():
			w.disarm()
			return false, context.Cause(ctx)
		case <-wake:
		case <-until:
		case <-w.news:
		case <-relisted:
			return true, nil
		case <-polled:
			changed, err := polls.poll(ctx)
			if changed || err != nil {
				return false, err
			}
			waits = true
		}
	}
	stale, exited := w.disarm()
	for _, id := range exited {
		i := slices.IndexFunc(obs.Containers, func(c lifecycle.Container) bool { return c.ID == id })
		if i < 0 {
			continue
		}
		now, ended, err := awaitRecord(ctx, client, obs.Containers[i])
		if err != nil {
			return false, err
		}
		if ended {
			obs.Put(now)
		} else {
			// The runtime has not recorded the exit yet, but one of the next lists will show it.
			w.unfollow(id)
		}
	}
	return stale, nil
}

// arm watches the processes of the running containers, and makes the hub compare its lists with obs.
func (w *Watch) arm(ctx context.Context, client *cri.Client, obs *lifecycle.Observed, d lifecycle.Decision) error {
	unwatched := 0
	running := map[string]bool{}
	for i := range obs.Containers {
		c := &obs.Containers[i]
		if c.State != lifecycle.Running || !slices.Contains(d.Watch, c.ID) {
			continue
		}
		running[c.ID] = true
		if _, watched := w.pids[c.ID]; !watched {
			if c.PID == 0 {
				// The verbose response, which contains the pid, is much more expensive for the runtime, so
				// arm requests it once per container.
				now, err := ReadContainer(ctx, client, c.ID, c.SandboxID, true)
				if err != nil {
					return err
				}
				c.PID = now.PID
			}
			w.follow(c.ID, c.PID)
		}
		if w.pids[c.ID].exited == nil {
			unwatched++
		}
	}
	for id, p := range w.pids {
		if !running[id] {
			p.stop()
			delete(w.pids, id)
		}
	}
	w.mu.Lock()
	more := unwatched > w.unwatched
	w.known = statesOf(obs)
	w.unwatched = unwatched
	w.mu.Unlock()
	if more && w.hub != nil {
		// The current interval of the hub may be long, and its earlier lists do not include these
		// containers.
		w.hub.Relist()
	}
	return nil
}

// follow watches the process of a container.
func (w *Watch) follow(id string, pid int) {
	p := watchPID(pid, id, func() { w.noteExit(id) })
	w.pids[id] = p
	if p.gone {
		w.noteExit(id)
	}
}

// unfollow stops watching a container's process. The hub then lists the pods at the interval
// fastestRelist, so that a list soon shows the exit.
func (w *Watch) unfollow(id string) {
	if p, followed := w.pids[id]; followed {
		p.stop()
		w.pids[id] = pidWatch{stop: func() {}}
	}
}

func (w *Watch) noteExit(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exited = append(w.exited, id)
	w.news.Send()
}

// disarm returns the changes that the watch has received, and resets the watch.
func (w *Watch) disarm() (stale bool, exited []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stale, exited = w.stale, w.exited
	w.known = nil
	w.stale = false
	w.exited = nil
	return stale, exited
}

// awaitRecord waits until the runtime has recorded the exit of a container whose process has exited.
// If that takes longer than settleTime, ended is false.
func awaitRecord(ctx context.Context, client *cri.Client, c lifecycle.Container) (now lifecycle.Container, ended bool, err error) {
	poll := settlePoll
	for late := time.Now().Add(settleTime); ; poll = min(poll*3/2, slowestPoll) {
		now, err := ReadContainer(ctx, client, c.ID, c.SandboxID, false)
		if err != nil || now.State != lifecycle.Running {
			return now, err == nil, err
		}
		if time.Now().After(late) {
			return now, false, nil
		}
		if err := wait.Sleep(ctx, poll); err != nil {
			return now, false, err
		}
	}
}
