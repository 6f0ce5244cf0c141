package observe

import (
	"context"
	"slices"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
)

// Watch is one worker's part of a Hub. Only its worker uses it.
type Watch struct {
	hub  *Hub
	uid  string
	news chan struct{}       // something below was set
	pids map[string]pidWatch // of the containers that are watched, by ID

	// Guarded by hub.mu.
	known     states   // the worker's known state while it waits; otherwise nil
	unwatched int      // running containers without a pidfd
	stale     bool     // the runtime has something else
	exited    []string // IDs of containers whose processes have ended
}

// Watch adds a pod to the hub. The caller calls Close.
func (h *Hub) Watch(uid string) *Watch {
	w := &Watch{hub: h, uid: uid, news: make(chan struct{}, 1), pids: map[string]pidWatch{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches[w] = true
	return w
}

// Close removes the pod from the hub.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	delete(w.hub.watches, w)
	w.hub.mu.Unlock()
	for id, p := range w.pids {
		p.stop()
		delete(w.pids, id)
	}
}

// Hub is the hub that the watch is of.
func (w *Watch) Hub() *Hub { return w.hub }

// signal wakes the worker.
func (w *Watch) signal() {
	select {
	case w.news <- struct{}{}:
	default: // it will wake up
	}
}

// Await waits until a container of d.Watch exits, which obs takes in, until
// d.Until, until wake has something, or until the runtime's list differs from obs:
// then stale is true, and the pod must be observed again. The error is that of ctx
// or of the runtime.
func (w *Watch) Await(ctx context.Context, client *cri.Client, obs *lifecycle.Observed, d lifecycle.Decision, wake <-chan struct{}) (stale bool, err error) {
	if err := w.arm(ctx, client, obs, d); err != nil {
		return false, err
	}
	var until <-chan time.Time
	if !d.Until.IsZero() {
		timer := time.NewTimer(time.Until(d.Until))
		defer timer.Stop()
		until = timer.C
	}
	select {
	case <-ctx.Done():
		w.disarm()
		return false, context.Cause(ctx)
	case <-wake:
	case <-until:
	case <-w.news:
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
			w.unfollow(id) // the runtime is late: its lists will show it
		}
	}
	return stale, nil
}

// arm watches the processes of the running containers, and lets the hub compare
// its lists with obs.
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
				// The verbose response, which contains the pid, is much more expensive
				// for the runtime: request it once per container.
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
	w.hub.mu.Lock()
	more := unwatched > w.unwatched
	w.known, w.unwatched = statesOf(obs), unwatched
	w.hub.mu.Unlock()
	if more {
		w.hub.Relist() // which may have slowed down; a list before this would not count
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

// unfollow leaves a container to the hub's lists, which come every fastestRelist then.
func (w *Watch) unfollow(id string) {
	if p, followed := w.pids[id]; followed {
		p.stop()
		w.pids[id] = pidWatch{stop: func() {}}
	}
}

func (w *Watch) noteExit(id string) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.exited = append(w.exited, id)
	w.signal()
}

// disarm removes the received events.
func (w *Watch) disarm() (stale bool, exited []string) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	stale, exited = w.stale, w.exited
	w.known, w.stale, w.exited = nil, false, nil
	return stale, exited
}

// awaitRecord waits until the runtime has recorded the exit of a container whose
// process has ended; ended is false if it does not do so within settleTime.
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
