package start

import (
	"errors"
	"fmt"

	"github.com/podrun/podrun/cri"
)

// endedBy is the error of a step on a container during which the context ended
// with cause. Where the runtime still answered why it could not do the step, the
// error has its answer: the deadline is then no reason, only the moment.
func (w *Starter) endedBy(cause error, name, op string, err error) error {
	if err == nil || errors.Is(err, cause) || cri.Interrupted(err) {
		return cause
	}
	return fmt.Errorf("%w; the runtime's last answer to %s container %s: %w", cause, op, name, w.pod.Redacted(name, err))
}
