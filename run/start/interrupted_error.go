package start

import (
	"errors"
	"fmt"

	"github.com/podrun/podrun/cri"
)

// interruptedError returns the error of a step on a container if the context ended during the step. The
// argument cause is the context's cause. If the runtime reported why the step failed, the error includes the
// runtime's message, because in that case the end of the context is not the reason for the failure.
func (st *Starter) interruptedError(cause error, name, op string, err error) error {
	if err == nil || errors.Is(err, cause) || cri.Interrupted(err) {
		return cause
	}
	return fmt.Errorf("%w; the runtime's last response to the request to %s container %s: %w", cause, op, name, st.pod.Redacted(name, err))
}
