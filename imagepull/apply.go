package imagepull

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/imagepull/auth"
)

// Options of a Puller. The zero value sets no limit and tells nobody.
type Options struct {
	MaxParallel int     // pulls at a time, over all pods; 0: no limit
	QPS         float64 // pulls begun a second; 0: no limit
	Burst       int     // pulls that may begin at once
	// Auth returns the credentials to try for an image reference, the best first;
	// secrets are the pod's imagePullSecrets. None, or a nil Auth, pulls
	// anonymously. Its error is final: what the user named is wrong.
	Auth func(ctx context.Context, secrets []*corev1.Secret, ref string) (auth.Found, error)
	// RetryAlways tries again what trying again can't help, too.
	RetryAlways bool
	// Timeout bounds the getting of one image, with all tries; 0 for no limit.
	Timeout time.Duration
	// BackOffDir keeps the back-off from one process to the next; "" does not.
	BackOffDir string
	// RecordDir keeps who pulled which image, for Verify; "" does not, and then
	// what is here is everybody's.
	RecordDir string
	Verify    Verification
	Emit      event.Sink
	// Progress gets how far the pulls are, every now and then; may be nil.
	Progress event.Sink
	// StallTimeout gives up a pull of which no byte came for so long, and tries
	// again; 0 waits for ever. Only containerd lets it be seen.
	StallTimeout time.Duration
}

// Puller pulls the images of any number of pods. It is safe for concurrent use.
type Puller struct {
	client *cri.Client
	opt    Options
	slots  chan struct{} // nil: no limit
	limit  *rate.Limiter
	watch  *watcher

	mu      sync.Mutex
	backOff BackOff
	known   map[string]bool     // pods whose back-off of earlier processes was read, by UID
	busy    map[string]*pulling // by reference
}

// NewPuller makes a puller.
func NewPuller(client *cri.Client, opt Options) *Puller {
	p := &Puller{client: client, opt: opt, watch: newWatcher(client.ImageConn(), opt.StallTimeout, opt.Progress), limit: newLimiter(opt.QPS, opt.Burst), busy: map[string]*pulling{}, known: map[string]bool{}}
	if opt.MaxParallel > 0 {
		p.slots = make(chan struct{}, opt.MaxParallel)
	}
	return p
}

// Result is an image that is here.
type Result struct {
	ImageID  string // what CreateContainer gets
	UID      *int64 // the image's user by number; 0 where the image names none
	Username string // the image's user by name, where it has no number
	Size     uint64 // bytes
}

// Pulls are the images of one plan, on their way.
type Pulls struct {
	puller *Puller
	plan   Plan
	jobs   map[string]*job // by container
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// job gets one image.
type job struct {
	image Image
	done  chan struct{}

	// Set before done is closed.
	result Result
	pulled bool // from the registry, just now
	err    error

	mu     sync.Mutex
	last   *PullError    // the failure that is backed off from
	failed chan struct{} // closed at the first failure that is backed off from
}

// Start begins to get all of the plan's images at once and returns. The work
// ends with ctx.
func (p *Puller) Start(ctx context.Context, plan Plan) *Pulls {
	ctx, cancel := context.WithCancel(ctx)
	pulls := &Pulls{puller: p, plan: plan, jobs: map[string]*job{}, cancel: cancel}
	for _, image := range plan.Images {
		j := &job{image: image, done: make(chan struct{}), failed: make(chan struct{})}
		for _, c := range image.Containers {
			pulls.jobs[c.Name] = j
		}
		pulls.all.Go(func() {
			defer close(j.done)
			p.run(ctx, plan, j)
		})
	}
	return pulls
}

// Stop ends what is still under way and waits for it. It may be called more
// than once.
func (s *Pulls) Stop() {
	s.cancel()
	s.all.Wait()
}

// Wait waits for a container's image, and no other. It tells the container's
// own events: once for each call. The error is a *problem.Error of kind Image
// with a *PullError, of kind Deadline, or ctx's cause.
func (s *Pulls) Wait(ctx context.Context, container string) (Result, error) {
	j, ok := s.jobs[container]
	if !ok {
		return Result{}, fmt.Errorf("container %s: its image is not in the plan", container)
	}
	c, first := j.image.container(container)
	select {
	case <-j.done:
	default:
		select {
		case <-j.done:
		case <-ctx.Done():
			return Result{}, cutShort(endOf(ctx), container, c.Image, j.lastFailure())
		}
	}
	if j.err != nil {
		return Result{}, s.failed(j, c, first)
	}
	if !j.pulled || !first {
		s.puller.emit(s.plan.ID, c, event.Normal, event.PulledImage,
			"Container image %q already present on machine and can be accessed by the pod", c.Image)
	}
	return j.result, nil
}

// Trouble is the first image's failure, by the order of the plan, that is backed
// off from; nil while none is. It tells no event and waits for nothing.
func (s *Pulls) Trouble() error {
	for _, image := range s.plan.Images {
		c := image.Containers[0]
		j := s.jobs[c.Name]
		if last := j.lastFailure(); last != nil && (!s.Done(c.Name) || j.err != nil) {
			return failure(c.Name, c.Image, last)
		}
	}
	return nil
}

// failed tells why a container won't have its image. The job told it to the
// first container already, where it tried a pull.
func (s *Pulls) failed(j *job, c Container, first bool) error {
	var end *ended
	if errors.As(j.err, &end) {
		return cutShort(end, c.Name, c.Image, j.lastFailure())
	}
	var pull *PullError
	if !errors.As(j.err, &pull) {
		return failure(c.Name, c.Image, j.err)
	}
	if pull.Reason == ReasonNeverPull {
		s.puller.emit(s.plan.ID, c, event.Warning, event.ErrImageNeverPull, "%s", neverMessage(c.Image))
	}
	if !first || pull.Reason == ReasonNeverPull {
		s.puller.emit(s.plan.ID, c, event.Warning, event.FailedToPullImage, "Error: %s", pull.Reason)
	}
	mine := *pull
	mine.Image = c.Image
	return failure(c.Name, c.Image, &mine)
}

func (j *job) lastFailure() *PullError {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

func (j *job) setLast(e *PullError) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == nil {
		close(j.failed)
	}
	j.last = e
}

// container finds a container of the image; first tells whether it is the one
// that the pull's events are about.
func (i Image) container(name string) (c Container, first bool) {
	for at, c := range i.Containers {
		if c.Name == name {
			return c, at == 0
		}
	}
	return Container{}, false
}

// emit tells an event of a container.
func (p *Puller) emit(id identity.Pod, c Container, kind, reason, format string, args ...any) {
	if p.opt.Emit == nil {
		return
	}
	p.opt.Emit(event.Event{
		Time: time.Now(), Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...),
		Namespace: id.Namespace, Pod: id.Name, UID: id.UID, FieldPath: c.FieldPath,
	})
}

// Ready waits until every image of the plan is here, and tells no events of
// containers: for a caller that wants the images before it starts anything.
func (s *Pulls) Ready(ctx context.Context) error {
	for _, image := range s.plan.Images {
		c := image.Containers[0]
		j := s.jobs[c.Name]
		select {
		case <-j.done:
		case <-ctx.Done():
			return cutShort(endOf(ctx), c.Name, c.Image, j.lastFailure())
		}
		if j.err != nil {
			return s.failed(j, c, true)
		}
	}
	return nil
}

// Done tells whether a container's image is here, or can't be had: whether Wait
// would return at once.
func (s *Pulls) Done(container string) bool {
	j, ok := s.jobs[container]
	if !ok {
		return true
	}
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// BacksOff waits until it is clear whether a container's image comes at the
// first try, and tells whether it does not: then it may be a long time coming.
func (s *Pulls) BacksOff(ctx context.Context, container string) bool {
	j, ok := s.jobs[container]
	if !ok {
		return false
	}
	select {
	case <-j.done:
		return false
	case <-ctx.Done():
		return false
	case <-j.failed:
		return !s.Done(container)
	}
}
