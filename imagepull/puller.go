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
	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
)

// Options are the settings of a Puller. The zero value sets no limit, pulls
// anonymously and reports no events.
type Options struct {
	MaxParallel int     // pulls at a time, over all pods; 0: no limit
	QPS         float64 // pulls begun a second; 0: no limit
	Burst       int     // pulls that may begin at once
	// Auth returns the credentials to try for an image reference, the best first; secrets
	// are the pod's imagePullSecrets. If it returns none, or Auth is nil, the pull is
	// anonymous. Its error is permanent: the user's input is wrong.
	Auth func(ctx context.Context, secrets []*corev1.Secret, ref string) (auth.Found, error)
	// RetryAlways retries permanent errors, too, save BadCredentials.
	RetryAlways bool
	// Timeout bounds one image with all its retries; 0: no limit.
	Timeout time.Duration
	// BackOffDir is where the back-off is kept from one process to the next; ""
	// keeps it in memory only.
	BackOffDir string
	// RecordDir is where it is recorded with which credentials each image was
	// pulled (KEP-2535), for Verify; "" records nothing, and then every pod may use
	// every image on this host.
	RecordDir string
	Verify    Verification
	// Emit receives the containers' events; may be nil.
	Emit event.Sink
	// Progress receives the progress of the pulls from time to time; may be nil.
	Progress event.Sink
	// Pulled is called after each successful pull with the image's size in bytes and the
	// duration of the pull, including waits; may be nil. It must not block.
	Pulled func(size uint64, took time.Duration)
	// StallTimeout ends a pull if nothing was added to containerd's store for this long,
	// and retries it; 0: never. containerd adds 1 MiB at a time. It requires containerd.
	StallTimeout time.Duration
}

// Puller pulls the images of any number of pods. It is safe for concurrent use.
type Puller struct {
	client *cri.Client
	opt    Options
	slots  chan struct{} // nil: no limit
	limit  *rate.Limiter
	queue  chan struct{} // has something while a pull waits for limit
	watch  *watcher

	mu      sync.Mutex
	backOff backOff
	known   map[string]bool     // pods whose back-off of earlier processes was read, by UID
	busy    map[string]*pulling // by reference
}

// NewPuller returns a puller that pulls through client, which must stay open as long
// as pulls run. It reads and writes nothing before Start.
func NewPuller(client *cri.Client, opt Options) *Puller {
	p := &Puller{client: client, opt: opt, watch: newWatcher(client, opt.StallTimeout, opt.Progress), limit: newLimiter(opt.QPS, opt.Burst), queue: make(chan struct{}, 1), busy: map[string]*pulling{}, known: map[string]bool{}}
	if opt.MaxParallel > 0 {
		p.slots = make(chan struct{}, opt.MaxParallel)
	}
	return p
}

// Result is an image that is on this host.
type Result struct {
	ImageID  string // for CreateContainer
	UID      *int64 // the image's user; 0 if the image names none, nil if it has a name only
	Username string // the image's user by name, if it has no number
	Size     uint64 // bytes
}

// Pulls are the running pulls of one plan. It is safe for concurrent use.
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

// Start begins to pull all of the plan's images concurrently and returns. The pulls
// end with ctx or with Stop.
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

// Stop cancels the pulls that are still running and waits for their end. It may be
// called more than once.
func (s *Pulls) Stop() {
	s.cancel()
	s.all.Wait()
}

// Wait waits for a container's image, and no other, and returns it. Each call emits
// the container's own events once. The error is a *problem.Error: of kind Image
// (with a *PullError), of kind Runtime (the runtime could not inspect the image) or
// of kind Deadline; or it wraps the cause of ctx.
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

// Trouble returns the failure that is being backed off from, of the first such image
// in the order of the plan; nil if there is none. The error is one of Wait's. It
// emits no event and does not wait.
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

// failed reports why a container won't have its image. The job reported it to the
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

// container finds a container of the image; first reports whether it is the one
// that the pull's events are about.
func (i Image) container(name string) (c Container, first bool) {
	for at, c := range i.Containers {
		if c.Name == name {
			return c, at == 0
		}
	}
	return Container{}, false
}

// emit reports an event of a container.
func (p *Puller) emit(id identity.Pod, c Container, kind, reason, format string, args ...any) {
	if p.opt.Emit == nil {
		return
	}
	p.opt.Emit(event.Event{
		Time: time.Now(), Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...),
		Namespace: id.Namespace, Pod: id.Name, UID: id.UID, FieldPath: c.FieldPath,
	})
}

// Ready waits until every image of the plan is on this host, for a caller that needs
// all images before it starts anything. It does not emit Wait's event of an image
// that is already present. The error is one of Wait's, of the first image in the order of the plan.
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

// Done reports whether the pull of a container's image has ended, successfully or not:
// whether Wait would return immediately. A container that is not in the plan is done.
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

// BacksOff waits for the first attempt to pull a container's image and reports
// whether it failed and is backed off from, so that the image may take long. It
// returns false when ctx ends first.
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
