package imagepull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/problem"
)

// PullError explains why a container has no image. Wait returns a *problem.Error whose Err is a
// PullError.
type PullError struct {
	Image string // as written in the pod
	// such as ErrImagePull or ImagePullBackOff
	Reason string
	Class  Class // "" if podrun did not try to pull the image
	Err    error // the runtime's error without credentials; may be nil
	// the credentials that podrun used
	Found auth.Found
	// Denied is true if the image is on this host, but the pod has not proven that it may
	// use it.
	Denied bool
	// Next is the time of the next attempt; it is zero if podrun does not try again.
	Next time.Time
	// Present is the name under which the image is on this host although the pull failed. It is ""
	// if the image is not on this host, or if the pod may not use it.
	Present string
}

// Error returns "reason: cause", as in the message of a container that waits.
func (e *PullError) Error() string {
	switch {
	case e.Reason == ReasonNeverPull:
		return e.Reason + ": " + neverMessage(e.Image)
	case e.Err != nil:
		return e.Reason + ": " + redact(e.detail()) + e.tried()
	}
	return e.Reason
}

// status returns the message of a container that waits for the image, as the kubelet shows it
// (pkg/kubelet/images/image_manager.go, evalCRIPullErr).
func (e *PullError) status() string {
	switch {
	case e.Reason == ReasonNeverPull:
		return neverMessage(e.Image)
	case e.Err == nil:
		return ""
	case e.Reason == ReasonInspect:
		return fmt.Sprintf("Failed to inspect image %q: %s", e.Image, redact(e.Err.Error()))
	case e.Reason == ReasonPull:
		return redact(e.Err.Error())
	}
	return redact(e.detail())
}

// Waiting returns the kubelet's reason and message of a container that waits because of err, an error of
// Pulls.Wait. It returns false if err is not a failed pull.
func Waiting(err error) (reason, message string, ok bool) {
	pull, ok := errors.AsType[*PullError](err)
	if !ok {
		return "", "", false
	}
	return pull.Reason, pull.status(), true
}

// detail returns the text of the runtime's error. If the text begins with one of CRI's reasons, detail replaces the
// reason by the kubelet's message, because Reason already contains the reason.
func (e *PullError) detail() string {
	text := Detail(e.Err)
	for reason, because := range map[string]string{ReasonUnavailable: "the registry is unavailable", ReasonSignature: "the signature validation failed"} {
		if rest, ok := strings.CutPrefix(text, reason); ok {
			return "image pull failed for " + e.Image + " because " + because + rest
		}
	}
	return text
}

// If the registry refused the pull, tried returns a text that names the sources of the refused
// credentials, and the sources that could not be read.
func (e *PullError) tried() string {
	if e.Class != Unauthorized && e.Class != NotFound {
		return ""
	}
	var sources []string
	for _, c := range e.Found.Credentials {
		if !slices.Contains(sources, c.Source) {
			sources = append(sources, c.Source)
		}
	}
	text := ""
	if len(sources) > 0 {
		text = " (with the credentials of " + strings.Join(sources, ", ") + ")"
	}
	for _, note := range e.Found.Notes {
		text += "; " + note
	}
	return text
}

// hint returns a text that explains how to fix the failure.
func (e *PullError) hint() string {
	if hint := e.presentHint(); hint != "" {
		return hint
	}
	if e.Class == Unauthorized && len(e.Found.Credentials) > 0 {
		return "correct the credentials: the registry refuses all of them for this image"
	}
	if e.Err != nil && strings.Contains(Detail(e.Err), unix.ENOSPC.Error()) {
		return "the runtime's disk is full: free space on it ('podrun image prune --all' removes unused images)"
	}
	if e.Err != nil && lacksOwner(Detail(e.Err)) {
		return "a file of the image belongs to a user or group ID that the user who runs podrun does not have: let root add subordinate IDs ('podrun doctor' prints the commands), or use sudo"
	}
	if e.Class == Overdue && e.Err != nil {
		// The text contains the previous failure, if there was one.
		if last := Classify(e.Err); last != Transient {
			return last.Hint()
		}
	}
	return e.Class.Hint()
}

// lacksOwner reports whether containerd could not set the owner of a file, because its user namespace does not have the
// ID: an ordinary user runs podrun without, or with too few, subordinate IDs.
func lacksOwner(message string) bool {
	return strings.Contains(strings.ToLower(message), "lchown") && strings.Contains(message, unix.EINVAL.Error())
}

// Unwrap returns the runtime's error; it may be nil.
func (e *PullError) Unwrap() error { return e.Err }

// backingOff returns a copy of the failure with the reason ImagePullBackOff, which applies until
// the next attempt.
func (e *PullError) backingOff() *PullError {
	waiting := *e
	waiting.Reason = ReasonBackOff
	return &waiting
}

func neverMessage(image string) string {
	return fmt.Sprintf("Container image %q is not present with pull policy of Never", image)
}

// failure returns the error of one container.
func failure(container, image string, err error) error {
	out := &problem.Error{Kind: problem.Image, Object: "container " + container, Op: fmt.Sprintf("image %q", image), Err: err}
	var pull *PullError
	switch {
	case !errors.As(err, &pull):
		out.Kind = problem.Runtime
		return out
	case pull.Denied:
		out.Hint = "the image is present, but was pulled with credentials that this pod lacks: add them with imagePullSecrets"
	case pull.Reason == ReasonNeverPull:
		out.Hint = cmp.Or(pull.presentHint(), "run 'podrun image load FILE' to load the image, or set imagePullPolicy: IfNotPresent")
	case pull.Reason == ReasonInspect:
		out.Kind = problem.Runtime
	case pull.Class == Disconnected:
		out.Kind, out.Hint = problem.Runtime, pull.hint()
	default:
		out.Hint = pull.hint()
	}
	if err == error(pull) {
		out.Err = brief{pull}
	}
	return out
}

// ended is the error for a context that ended before an image was present.
type ended struct {
	cause    error
	deadline bool
}

func endOf(ctx context.Context) *ended {
	return &ended{cause: context.Cause(ctx), deadline: errors.Is(ctx.Err(), context.DeadlineExceeded)}
}

// Error returns the cause's text.
func (e *ended) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *ended) Unwrap() error { return e.cause }

// cutShort returns the error of a container if its wait ended before its image was present. If
// the deadline expired after a pull had failed, the error is that failure.
func cutShort(end *ended, container, image string, last *PullError) error {
	switch {
	case end.deadline && last != nil:
		return failure(container, image, last)
	case end.deadline:
		return &problem.Error{Kind: problem.Deadline, Object: "container " + container, Op: fmt.Sprintf("pull image %q", image),
			Err: end, Hint: "increase --timeout"}
	}
	return fmt.Errorf("container %s: pull image %q: %w", container, image, end)
}
