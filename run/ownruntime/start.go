package ownruntime

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
)

// start starts the embedded runtime if it is not running yet, and then prepares the runtime in both
// cases. The wait for containerd, and for another podrun process that waits for it, is limited as
// embedded.AttendStart describes.
func (r *Runtime) start(ctx context.Context) error {
	ctx, end := runtimeStart{r}.attend(ctx)
	defer end()
	lock, err := r.lock(ctx)
	if err == nil {
		defer lock.Unlock()
		err = runtimeStart{r}.run(ctx)
	}
	if err != nil && ctx.Err() != nil {
		return waitEnded(ctx, err)
	}
	return err
}

// runtimeStart is a start of the embedded runtime.
type runtimeStart struct{ runtime *Runtime }

// attend is embedded.AttendStart with reports to the user and in Condition.
func (s runtimeStart) attend(ctx context.Context) (context.Context, context.CancelFunc) {
	return embedded.AttendStart(ctx, s.runtime.layout, func(pid int) {
		text := startingText(pid) + "; 'podrun runtime logs' shows its log"
		setProblem(&s.runtime.problem, text)
		s.runtime.Note("waiting for the embedded runtime: " + text)
	})
}

// startingText describes a containerd that does not answer yet.
func startingText(pid int) string {
	return fmt.Sprintf("containerd (process %d) is starting and does not answer yet", pid)
}

// waitEnded returns the error of a start after ctx has ended. The argument is the error of the step that
// was interrupted.
func waitEnded(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if stalled, found := errors.AsType[embedded.Stalled](cause); found {
		return stalled.Problem(cause)
	}
	_, expired := errors.AsType[problem.TimeoutError](cause)
	if e, ok := errors.AsType[*problem.Error](err); !expired || ok && e.Kind == problem.Deadline {
		return err
	}
	return &problem.Error{Kind: problem.Deadline, Object: "embedded runtime",
		Err:  fmt.Errorf("%w: %w", cause, err),
		Hint: "increase --timeout; 'podrun runtime logs' shows containerd's log"}
}

// run implements Runtime.start. The layout's lock must be held.
func (s runtimeStart) run(ctx context.Context) error {
	record, err := s.runtime.readChoice(ctx)
	if err != nil {
		return err
	}
	last := embedded.ReadDaemon(ctx, s.runtime.layout)
	if err := embedded.RestoreDaemon(s.runtime.layout, last); err != nil {
		s.runtime.Warn(problem.List{problem.WarningOf(err)})
	}
	if err := s.runtime.installVerifier(); err != nil {
		return err
	}
	restarts := last.Alive() && reconfigures(ctx, s.runtime)
	if restarts {
		if err := embedded.Stop(ctx, s.runtime.layout, last); err != nil {
			return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "stop it", Err: err}
		}
	}
	switch {
	case last.Alive() && last.Starting:
		started, err := s.prepare(ctx, embedded.StartOptions{Digest: last.Digest, Running: last})
		if err != nil {
			return err
		}
		last = &started
	case last.Alive():
		if err := embedded.AwaitReady(ctx, s.runtime.layout, *last); err != nil {
			return err
		}
		if err := (ownPause{s.runtime}).restore(ctx, last.Digest); err != nil {
			return err
		}
	default:
		if !restarts {
			embedded.NoteEnd(ctx, s.runtime.layout, last)
		}
		digest, err := s.unpack(ctx, last, record)
		if err != nil {
			return err
		}
		started, err := s.launch(ctx, digest)
		if err != nil {
			return err
		}
		last = &started
	}
	if record == nil || record.Kind != embedded.Own || record.Digest != last.Digest {
		if err := s.runtime.recordUnlessOther(ctx, embedded.Choice{Kind: embedded.Own, Digest: last.Digest}); err != nil {
			return err
		}
		if record == nil || record.Kind != embedded.Own {
			s.runtime.Note("using the embedded container runtime, in " + s.runtime.layout.Dir())
		}
	}
	if err := s.runtime.loadDropped(ctx); err != nil {
		return err
	}
	ownStore{s.runtime}.announce(ctx)
	return nil
}

// unpack installs the files of the runtime, and returns the digest of the archive.
func (s runtimeStart) unpack(ctx context.Context, last *embedded.Daemon, record *embedded.Choice) (string, error) {
	defer trace.Begin(ctx, "unpack or verify the embedded runtime", "")()
	own := ""
	if s.runtime.archive != nil {
		own = s.runtime.archive.Digest
	}
	unpacked := func(digest string) bool { return embedded.Verify(ctx, s.runtime.layout, digest) == nil }
	digest := embedded.PickDigest(last, record, own, unpacked)
	switch {
	case digest == "":
		return "", &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
			Err:  errors.New("this podrun binary does not contain a runtime, and no runtime is unpacked in " + s.runtime.layout.Dir()),
			Hint: "use podrun-bundle"}
	case digest == own:
		return digest, embedded.Unpack(ctx, s.runtime.layout, *s.runtime.archive)
	}
	return digest, nil // the archive was already verified
}

// launch starts the unpacked runtime.
func (s runtimeStart) launch(ctx context.Context, digest string) (embedded.Daemon, error) {
	if err := (ownStore{s.runtime}).prepare(ctx); err != nil {
		return embedded.Daemon{}, err
	}
	podCIDR, err := nodeconfig.ParsePodCIDR(s.runtime.settings.PodCIDR)
	if err != nil {
		return embedded.Daemon{}, &problem.Error{Kind: problem.Usage, Object: "--pod-cidr", Err: err} // already checked by the caller
	}
	sandbox, err := ownPause{s.runtime}.open(ctx, digest)
	if err != nil {
		return embedded.Daemon{}, pauseError(err)
	}
	defer sandbox.file.Close()
	return s.prepare(ctx, embedded.StartOptions{
		Digest:       digest,
		SandboxImage: sandbox.reference(),
		PodCIDR:      podCIDR,
		VerifyImages: s.runtime.verifiesImages(),
		CgroupRoot:   s.runtime.settings.CgroupRoot,
		Environment:  os.Environ(),
	})
}

// prepare starts containerd, or waits for the one that is starting (o.Running), and prepares it for use: it
// checks the store and loads the sandbox image.
func (s runtimeStart) prepare(ctx context.Context, o embedded.StartOptions) (embedded.Daemon, error) {
	o.CgroupDriver = s.runtime.settings.CgroupDriver
	o.EndsStalled = s.runtime.Replaces
	end := trace.Begin(ctx, "start containerd", "")
	d, err := embedded.Start(ctx, s.runtime.layout, o)
	end()
	if e, ok := errors.AsType[*problem.Error](err); ok && isDamage(err) {
		e.Hint = ownStore{s.runtime}.hint(ctx)
	}
	if err != nil {
		return d, err
	}
	if err := (ownPause{s.runtime}).restore(ctx, o.Digest); err != nil {
		return d, err
	}
	if err := embedded.Prune(ctx, s.runtime.layout, o.Digest); err != nil {
		s.runtime.Warn(problem.List{problem.WarningOf(err)})
	}
	return d, d.Ready(s.runtime.layout)
}
