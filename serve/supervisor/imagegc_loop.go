package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/imagegc"
)

// Images provides access to the runtime's images.
type Images interface {
	// List lists the images on this host, with their sizes and whether they are in use. An image is in use if a
	// container or a pod on this host, even a stopped one, uses it. It is also in use if the runtime keeps it, or
	// if it has one of the given names.
	List(ctx context.Context, names []string) ([]imagegc.Image, error)
	// Remove removes an image with all its names. It is not an error if the image does not exist.
	Remove(ctx context.Context, id string) error
}

// collectEvery is the interval at which podrun observes and removes images (ImageGCPeriod in
// pkg/kubelet), and removes leftovers of deleted pods.
const collectEvery = 5 * time.Minute

// imageUse records when images were used.
type imageUse struct {
	mu sync.Mutex // serializes observations and removals
	// true if the records of an earlier process have been read
	read    bool
	records imagegc.Records
	failed  bool // true if the last attempt failed
}

// collectImages periodically removes unused images.
func (s *Supervisor) collectImages(ctx context.Context) {
	for {
		if s.hub.Down().IsZero() {
			err := s.images.collect(ctx, s)
			if err != nil && ctx.Err() == nil && s.images.failed {
				// Like the kubelet, podrun warns only after the second consecutive failure.
				s.warnNode(imagegc.ReasonImageGCFailed, err.Error())
			}
			s.images.failed = err != nil
		}
		if wait.Sleep(ctx, collectEvery) != nil {
			return
		}
	}
}

// collect removes images because of their age, or because of the usage of their disk.
func (u *imageUse) collect(ctx context.Context, s *Supervisor) error {
	policy := imagegc.PolicyOf(s.current().Settings)
	if policy.Off() {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	list, now, err := u.observe(ctx, s)
	if err != nil {
		return err
	}
	if _, err := u.remove(ctx, s, imagegc.Expired(list, u.records, policy, now), math.MaxInt64); err != nil {
		return fmt.Errorf("remove images that have not been used for %s: %w", policy.MaxAge, err)
	}
	facts, err := s.options.Stats.Node(ctx)
	if err != nil {
		return err
	}
	surplus := imagegc.Surplus(policy, facts.ImageFS)
	if surplus == 0 {
		return nil
	}
	freed, err := u.remove(ctx, s, imagegc.Unused(list, u.records, policy, now), surplus)
	if err != nil {
		return err
	}
	if freed < surplus {
		message := imagegc.Insufficient(facts.ImageFS, freed)
		s.warnNode(imagegc.ReasonFreeDiskSpaceFailed, message)
		return errors.New(message)
	}
	return nil
}

// removeUnused removes all unused images.
func (u *imageUse) removeUnused(ctx context.Context, s *Supervisor) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	list, now, err := u.observe(ctx, s)
	if err != nil {
		return err
	}
	_, err = u.remove(ctx, s, imagegc.Unused(list, u.records, imagegc.PolicyOf(s.current().Settings), now), math.MaxInt64)
	return err
}

// imageUseFile contains, for each image, when a container last used it. Without it, no image counts as unused
// before podrun has observed it for long enough.
var imageUseFile = statefile.Declare(statefile.Kind[imagegc.Records]{
	What: "the use of images", Files: "serve/images", Scope: statefile.Host,
	On:    statefile.Answers{Absent: "no image was observed", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Partial},
	Paths: statefile.At(identity.Layout.Serve, identity.ServeDir.ImageUse), Mode: 0o600, Unsynced: true,
})

// observe reads the images, determines which of them are in use, and stores the records.
func (u *imageUse) observe(ctx context.Context, s *Supervisor) ([]imagegc.Image, time.Time, error) {
	file := s.current().Layout().Serve().ImageUse()
	if !u.read {
		records, fault, err := imageUseFile.Read(ctx, file)
		if err != nil {
			return nil, time.Time{}, err
		}
		if fault != nil {
			s.current().WarnOnce(fault.Warning())
		}
		u.records = records
		u.read = true
	}
	list, err := s.options.Images.List(ctx, s.wantedImages())
	now := time.Now()
	if err != nil {
		return nil, now, fmt.Errorf("find unused images: %w", err)
	}
	u.records = imagegc.Observe(u.records, list, 2*collectEvery, now)
	err = imageUseFile.Write(file, u.records)
	if err != nil && !store.CannotWrite(err) {
		s.current().WarnOnce(problem.WarningOf(fmt.Errorf("save the image usage records: %w", err)))
	}
	return list, now, nil
}

// wantedImages returns the names of the images of all pods that the manifest directories
// define, even if podrun could not start the pod.
func (s *Supervisor) wantedImages() []string {
	s.mu.Lock()
	want := s.want
	s.mu.Unlock()
	var names []string
	for i := range want.Pods {
		plan, _ := imagepull.New(want.Pods[i].Object, identity.Pod{}, "")
		for _, image := range plan.Images {
			names = append(names, image.Ref)
		}
	}
	return names
}

// remove removes images in the given order until it has freed the given number of bytes. It returns
// the number of bytes that it has freed. The error joins the errors of the images that could not be
// removed.
func (u *imageUse) remove(ctx context.Context, s *Supervisor, list []imagegc.Image, bytes int64) (freed int64, err error) {
	var errs []error
	for _, i := range list {
		if freed >= bytes {
			break
		}
		if err := s.options.Images.Remove(ctx, i.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove image %s: %w", i.Name, err))
			continue
		}
		delete(u.records.Images, i.ID)
		freed += i.Size
	}
	return freed, errors.Join(errs...)
}
