package start

import (
	"errors"
	"fmt"

	"github.com/podrun/podrun/cri"
)

// interruptedError returns the error of a step on a container during which the context ended with cause. If the
// runtime reported why the step failed, the error includes the runtime's message, because the end of the
// context is then not the reason.
func (st *Starter) interruptedError(cause error, name, op string, err error) error {
	if err == nil || errors.Is(err, cause) || cri.Interrupted(err) {
		return cause
	}
	return fmt.Errorf("%w; the runtime's last response to the request to %s container %s: %w", cause, op, name, st.pod.Redacted(name, err))
}
