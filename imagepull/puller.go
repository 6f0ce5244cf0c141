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
	"github.com/podrun/podrun/internal/problem"
)

// Options are the settings of a Puller. The zero value sets no limits, pulls anonymously and
// reports no events.
type Options struct {
	MaxParallel int     // concurrent pulls of all pods; 0 means no limit
	QPS         float64 // started pulls per second; 0 means no limit
	Burst       int     // pulls that may start at once
	// Auth returns the credentials to try for an image reference, the best first; secrets
	// are the pod's imagePullSecrets. If it returns none, or Auth is nil, the pull is
	// anonymous. An error is permanent: it means that the user's input is invalid.
	Auth func(ctx context.Context, secrets []*corev1.Secret, ref string) (auth.Found, error)
	// RetryAlways means that permanent errors other than BadCredentials are retried, too.
	RetryAlways bool
	// Attended means that a user waits who can correct the name of the registry: a name that does not
	// resolve is a permanent error then, unless RetryAlways is set.
	Attended bool
	// Timeout limits the time for one image, including retries; 0 means no limit.
	Timeout time.Duration
	// BackOffDir is the directory that preserves the back-off for later processes; "" keeps
	// it only in memory.
	BackOffDir string
	// RecordDir is the directory that records the credentials with which each image was
	// pulled (KEP-2535), for Verify. With "", podrun records nothing, and every pod may use
	// every image on this host.
	RecordDir string
	Verify    Verification
	// Emit receives the containers' events; may be nil.
	Emit event.Sink
	// Warn receives a warning when the first pull of an image has failed and is retried; may be nil.
	Warn func(problem.List)
	// Progress receives the progress of the pulls periodically; may be nil.
	Progress event.Sink
	// Pulled is called after each successful pull with the image's size in bytes and the
	// duration of the pull, including waits; may be nil. It must not block.
	Pulled func(size uint64, took time.Duration)
	// StallTimeout is the time without new data in containerd's store after which a pull is
	// canceled and retried; 0 means never. containerd adds 1 MiB at a time. Other runtimes are not
	// supported.
	StallTimeout time.Duration
}

// Puller pulls the images of any number of pods. It is safe for concurrent use.
type Puller struct {
	client *cri.Client
	opt    Options
	slots  chan struct{} // nil means no limit
	limit  *rate.Limiter
	queue  chan struct{} // contains an element while a pull waits for limit
	watch  *watcher

	mu      sync.Mutex
	backOff backOff
	known   map[string]bool     // UIDs of the pods whose stored back-off has been read
	busy    map[string]*pulling // by reference
}

// NewPuller returns a puller that uses client, which must stay open while pulls run. It
// reads and writes nothing before Start.
func NewPuller(client *cri.Client, opt Options) *Puller {
	p := &Puller{client: client, opt: opt, watch: newWatcher(client, opt.StallTimeout, opt.Progress), limit: newLimiter(opt.QPS, opt.Burst), queue: make(chan struct{}, 1), busy: map[string]*pulling{}, known: map[string]bool{}}
	if opt.MaxParallel > 0 {
		p.slots = make(chan struct{}, opt.MaxParallel)
	}
	return p
}

// Result is an image that is present on this host.
type Result struct {
	ImageID  string // for CreateContainer
	UID      *int64 // the image's user; 0 if the image has none, nil if it has only a name
	Username string // the name of the image's user, if it has no number
	Size     uint64 // bytes
}

// Pulls contains the pulls of one plan. It is safe for concurrent use.
type Pulls struct {
	puller *Puller
	plan   Plan
	jobs   map[string]*job // by container name
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// job is the task of making one image available.
type job struct {
	image Image
	done  chan struct{}

	// Set before done is closed.
	result Result
	pulled bool // pulled from the registry by this job
	err    error

	mu     sync.Mutex
	last   *PullError    // the failure that caused the back-off
	failed chan struct{} // closed at the first failure that causes a back-off
}

// Start starts to pull all images of the plan concurrently and returns. The pulls end with
// ctx or Stop.
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

// Stop cancels the pulls in progress and waits until they have ended. It may be called
// repeatedly.
func (s *Pulls) Stop() {
	s.cancel()
	s.all.Wait()
}

// Wait waits for a container's image, regardless of other images, and returns it. Each call
// emits the container's events once. The error is a *problem.Error of kind Image (with a
// *PullError), of kind Runtime (the runtime could not inspect the image) or of kind
// Deadline, or it wraps the cause of ctx.
func (s *Pulls) Wait(ctx context.Context, container string) (Result, error) {
	j, ok := s.jobs[container]
	if !ok {
		return Result{}, fmt.Errorf("container %s: the plan does not include its image", container)
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

// BackOffError returns the failure that caused the back-off of an image: of the first image in
// back-off, in the order of the plan, or nil if there is none. The error is as documented for Wait.
// BackOffError emits no event and does not wait.
func (s *Pulls) BackOffError() error {
	for _, image := range s.plan.Images {
		c := image.Containers[0]
		j := s.jobs[c.Name]
		if last := j.lastFailure(); last != nil && (!s.Done(c.Name) || j.err != nil) {
			return failure(c.Name, c.Image, last)
		}
	}
	return nil
}

// failed returns why a container will not get its image. It emits the events, except those
// that the job has already emitted for the first container.
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

// container returns a container of the image; first reports whether the pull's events refer
// to it.
func (i Image) container(name string) (c Container, first bool) {
	for at, c := range i.Containers {
		if c.Name == name {
			return c, at == 0
		}
	}
	return Container{}, false
}

// emit emits an event of a container.
func (p *Puller) emit(id identity.Pod, c Container, kind, reason, format string, args ...any) {
	if p.opt.Emit == nil {
		return
	}
	p.opt.Emit(event.Event{
		Time: time.Now(), Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...),
		Namespace: id.Namespace, Pod: id.Name, UID: id.UID, FieldPath: c.FieldPath,
	})
}

// Ready waits until every image of the plan is present on this host, for callers that need
// all images before they start anything. It does not emit the event that Wait emits for an image
// that is already present. The error is as documented for Wait, for the first image in the order of
// the plan.
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

// Done reports whether the pull of a container's image has ended, successfully or not, so
// that Wait would return immediately. It returns true for a container that is not in the
// plan.
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

// Present returns a container's image if it is available: Wait would return the same image without
// waiting. Present emits no event.
func (s *Pulls) Present(container string) (Result, bool) {
	j, ok := s.jobs[container]
	if !ok || !s.Done(container) || j.err != nil {
		return Result{}, false
	}
	return j.result, true
}

// BacksOff waits for the first attempt to pull a container's image and reports whether the attempt
// caused a back-off, so that the image may not be available for a long time. It returns false if
// ctx ends first.
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
