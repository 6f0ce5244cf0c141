package observe

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/run/lifecycle"
)

// podrun detects a container's exit as follows. A pidfd wakes podrun immediately. podrun then polls the
// runtime, at first every settlePoll, until the runtime reports the exit, about 25 ms later. Without a hub, it also
// polls the running containers: at increasing intervals if it does not know the pid of one of them, and otherwise every
// safeguardPoll, in case a pidfd does not work.
const (
	settlePoll    = 2 * time.Millisecond
	settleTime    = 500 * time.Millisecond
	firstPoll     = 5 * time.Millisecond
	slowestPoll   = 15 * time.Millisecond
	safeguardPoll = time.Second
	// RelistAfter is the interval at which podrun observes a pod even if nothing has happened.
	RelistAfter = 10 * time.Second
	// OutagePoll is the interval at which podrun polls an unavailable runtime.
	OutagePoll = 100 * time.Millisecond
)

// IsUnavailable reports whether an error means that the runtime is unavailable.
func IsUnavailable(err error) bool { return status.Code(err) == codes.Unavailable }

// AwaitChange is Watch.Await for a command, which has no hub: it polls the containers, because a list of all pods would be
// slow on a host with thousands of them. After the duration relist it returns stale, because the runtime does not
// announce every change.
func AwaitChange(ctx context.Context, client *cri.Client, obs *lifecycle.Observed, d lifecycle.Decision, wake <-chan struct{}, relist time.Duration) (stale bool, err error) {
	w := newWatch(nil, "")
	defer w.Close()
	return w.await(ctx, client, obs, d, wake, relist)
}

// poller polls the running containers of a pod, for a Watch without a hub.
type poller struct {
	watch     *Watch
	client    *cri.Client
	obs       *lifecycle.Observed
	interval  time.Duration
	verboseAt time.Time // of the last verbose requests
}

// next returns the time until the next poll.
func (p *poller) next() time.Duration {
	if p.watch.unwatched == 0 {
		return safeguardPoll
	}
	p.interval = min(max(firstPoll, p.interval*5/4), slowestPoll)
	return p.interval
}

// poll reads the states of the containers, and reports whether one of them is no longer running. A verbose response is
// much more expensive than a plain one, both for the runtime and for podrun. So poll requests it only if the pid is
// unknown, and not at each poll if the runtime reports no pid.
func (p *poller) poll(ctx context.Context) (changed bool, err error) {
	verbose := time.Since(p.verboseAt) >= safeguardPoll
	for id := range p.watch.pids {
		i := slices.IndexFunc(p.obs.Containers, func(c lifecycle.Container) bool { return c.ID == id })
		c := p.obs.Containers[i]
		now, err := ReadContainer(ctx, p.client, id, c.SandboxID, verbose && c.PID == 0)
		switch {
		case err != nil:
			return false, err
		case now.State != lifecycle.Running:
			p.obs.Put(now)
			changed = true
		case c.PID == 0 && now.PID != 0:
			p.obs.Containers[i].PID = now.PID
			p.watch.follow(id, now.PID)
			p.watch.unwatched--
		}
	}
	if verbose {
		p.verboseAt = time.Now()
	}
	return changed, nil
}

// Settled reports whether a container has exited although podrun's call to stop it failed. containerd's
// StopContainer fails if the container exits by itself at the same moment ("ttrpc: closed"). containerd
// then records the exit up to half a second later.
func Settled(ctx context.Context, client *cri.Client, c lifecycle.Container) bool {
	_, ended, _ := awaitRecord(ctx, client, c) // without an answer, it is not known to have exited
	return ended
}
