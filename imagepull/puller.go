package imagepull

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	MaxParallel int     // maximum number of concurrent pulls of all pods; 0 means no limit
	QPS         float64 // maximum number of pulls that start per second; 0 means no limit
	Burst       int     // number of pulls that may start at once
	// Auth returns the credentials to try for an image reference, in order of preference. The
	// argument secrets contains the pod's imagePullSecrets. If Auth returns no credentials, or if
	// Auth is nil, the pull is anonymous. An error means that the user's input is invalid, so it is
	// permanent.
	Auth func(ctx context.Context, secrets []*corev1.Secret, ref string) (auth.Found, error)
	// RetryAlways means that podrun also retries permanent errors, except BadCredentials.
	RetryAlways bool
	// Attended means that a user is waiting for the command, and can correct the name of the registry. A
	// name that does not resolve is then a permanent error, unless RetryAlways is set.
	Attended bool
	// Timeout limits the time for one image, including retries; 0 means no limit.
	Timeout time.Duration
	// BackOffDir is the directory in which podrun stores the back-off for later processes. If it is
	// "", the back-off is only in memory.
	BackOffDir string
	// RecordDir is the directory in which podrun records the credentials with which it pulled each
	// image (KEP-2535), which Verify checks. If it is "", podrun records nothing, and every pod may
	// use every image on this host.
	RecordDir string
	Verify    Verification
	// Approve returns an error if the policy of this host does not permit an image with this ID. podrun calls it
	// whenever it has found or pulled an image, before a container can use the image. nil permits all images.
	Approve func(ctx context.Context, image Image, id string) error
	// Emit receives the containers' events; it may be nil.
	Emit event.Sink
	// Warn receives a warning when the first pull of an image has failed and podrun will retry it.
	// It may be nil.
	Warn func(problem.List)
	// Progress receives the progress of the pulls at intervals; it may be nil.
	Progress event.Sink
	// podrun calls Pulled after each successful pull with the image's size in bytes and the
	// duration of the pull, including waits. It may be nil. It must not block.
	Pulled func(size uint64, took time.Duration)
	// If containerd's store receives no new data for StallTimeout, podrun cancels the pull and
	// retries it. If it is 0, podrun never does this. containerd adds data to its store in steps of
	// 1 MiB. Other runtimes are not supported.
	StallTimeout time.Duration
	// Repair loads images again of which podrun has an archive, if the runtime has lost a part of them. It
	// reports whether it has loaded any since the given time. It may be nil.
	Repair func(ctx context.Context, since time.Time) bool
}

// Puller pulls the images of any number of pods. It is safe for concurrent use.
type Puller struct {
	client *cri.Client
	opt    Options
	slots  chan struct{} // nil means no limit
	limit  *rate.Limiter
	// contains an element while a pull waits for the rate limit
	queue chan struct{}
	watch *watcher

	mu      sync.Mutex
	backOff backOff
	// UIDs of the pods whose stored back-off podrun has read
	known map[string]bool
	busy  map[string]*pulling // by reference
}

// NewPuller returns a puller that uses client. The caller must not close client while pulls run.
// NewPuller itself does not access the runtime or any file.
func NewPuller(client *cri.Client, opt Options) *Puller {
	p := &Puller{client: client, opt: opt, watch: newWatcher(client, opt.StallTimeout, opt.Progress), limit: newLimiter(opt.QPS, opt.Burst), queue: make(chan struct{}, 1), busy: map[string]*pulling{}, known: map[string]bool{}}
	if opt.MaxParallel > 0 {
		p.slots = make(chan struct{}, opt.MaxParallel)
	}
	return p
}

// Result is an image that is present on this host.
type Result struct {
	ImageID string // the ID for CreateContainer
	// UID of the image's user: 0 if the image sets no user, nil if it sets only a name
	UID *int64
	// name of the image's user, if the image sets a name instead of a UID
	Username string
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

	// These fields are set before done is closed.
	result Result
	pulled bool // whether this job pulled the image
	err    error

	mu       sync.Mutex
	last     *PullError    // failure that caused the back-off
	failures int           // number of failures that caused a back-off
	failed   chan struct{} // closed, and replaced, at each of these failures
}

// Start starts to pull all images of the plan concurrently, and returns. The pulls end when ctx
// ends or Stop is called.
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

// For returns finished pulls for another pod with the same images and credentials, such as the one that replaces the
// pod. It returns nil if s is nil, if a pull has not finished, or if the plans differ.
func (s *Pulls) For(plan Plan) *Pulls {
	if s == nil {
		return nil
	}
	same := s.plan
	same.ID, same.Sandbox = plan.ID, plan.Sandbox
	if !reflect.DeepEqual(same, plan) {
		return nil
	}
	for container := range s.jobs {
		if !s.Done(container) {
			return nil
		}
	}
	return &Pulls{puller: s.puller, plan: plan, jobs: s.jobs, cancel: s.cancel}
}

// Stop cancels the pulls that are in progress, and waits until they have ended. It may be
// called repeatedly.
func (s *Pulls) Stop() {
	s.cancel()
	s.all.Wait()
}

// Wait waits for a container's image, regardless of other images, and returns it. Each call emits
// the container's events exactly once. The error is a *problem.Error of kind Image (with a
// *PullError), Runtime (the runtime could not inspect the image) or Deadline, or it wraps the cause
// of ctx.
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

// BackOffError returns the failure that caused a back-off. It considers the first image in
// back-off, in the order of the plan, and returns nil if no image is in back-off. The error has the
// form that is documented at Wait. BackOffError emits no event and does not wait.
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

// failed returns the error of a container that will not get its image. It emits the events for the
// error, except those that the job has already emitted for the first container.
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
		s.puller.emitFailed(s.plan.ID, c, true, "Error: "+pull.Reason)
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
	j.last = e
	j.failures++
	close(j.failed)
	j.failed = make(chan struct{})
}

// failedOften returns the number of failures that caused a back-off, and a channel that the next one closes.
func (j *job) failedOften() (failures int, next <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failures, j.failed
}

// container returns the container that has the given name and uses the image. first reports whether this is the
// container to which the events of the pull refer.
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
	p.emitEvent(id, c, event.Event{Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// emitFailed emits an event of a failed pull; see event.Event.Repeats.
func (p *Puller) emitFailed(id identity.Pod, c Container, repeats bool, message string) {
	p.emitEvent(id, c, event.Event{Type: event.Warning, Reason: event.FailedToPullImage, Message: message, Repeats: repeats})
}

func (p *Puller) emitEvent(id identity.Pod, c Container, e event.Event) {
	if p.opt.Emit == nil {
		return
	}
	e.Time, e.Namespace, e.Pod, e.UID, e.FieldPath = time.Now(), id.Namespace, id.Name, id.UID, c.FieldPath
	p.opt.Emit(e)
}

// Ready waits until every image of the plan is present on this host. It is for callers that require
// all images before they start anything. Wait emits an event for an image that is already present;
// Ready does not. The error has the form that is documented at Wait. If several images fail, it
// concerns the first one in the order of the plan.
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

// Attempted waits until each pull has finished or has failed once. It returns the error of the first image
// that is not available.
func (s *Pulls) Attempted(ctx context.Context) error {
	for _, image := range s.plan.Images {
		s.BacksOff(ctx, image.Containers[0].Name)
	}
	if err := s.BackOffError(); err != nil {
		return err
	}
	return s.Ready(ctx)
}

// Done reports whether the pull of a container's image has ended, successfully or not, so that Wait would return
// immediately. If the container is not in the plan, Done returns true.
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

// Present returns a container's image if it is available, so that Wait would return it immediately.
// Present emits no event.
func (s *Pulls) Present(container string) (Result, bool) {
	j, ok := s.jobs[container]
	if !ok || !s.Done(container) || j.err != nil {
		return Result{}, false
	}
	return j.result, true
}

// BacksOff waits for the first attempt to pull a container's image, and reports whether the
// attempt caused a back-off. If it did, the image may not be available for a long time. It returns
// false if ctx ends first.
func (s *Pulls) BacksOff(ctx context.Context, container string) bool {
	return s.Failures(ctx, container, 0) > 0
}

// Failures waits until more than known attempts to pull a container's image have caused a back-off, and
// returns their number. It returns 0 if the pull has ended or ctx ends first.
func (s *Pulls) Failures(ctx context.Context, container string, known int) int {
	j, ok := s.jobs[container]
	if !ok {
		return 0
	}
	for {
		failures, next := j.failedOften()
		if s.Done(container) {
			return 0
		}
		if failures > known {
			return failures
		}
		select {
		case <-j.done:
			return 0
		case <-ctx.Done():
			return 0
		case <-next:
		}
	}
}
