package probe

import (
	"fmt"
	"strings"

	"github.com/podrun/podrun/internal/event"
)

// eventOf returns the kubelet's event for the result of a probe. For a success, it returns "",
// "".
func (p Plan) eventOf(r Result, err error) (reason, message string) {
	switch {
	case err != nil:
		return event.UnhealthyContainer, fmt.Sprintf("%s probe errored and resulted in %s state: %v", p.Kind, r.Outcome, event.CutBytes(err.Error(), maxOutput))
	case r.Outcome == Failure:
		return event.UnhealthyContainer, fmt.Sprintf("%s probe failed: %s", p.Kind, r.Output)
	case r.Outcome == Warning:
		return event.ProbeWarning, fmt.Sprintf("%s probe warning: %s", p.Kind, r.Output)
	}
	return "", ""
}

// killMessage returns the kubelet's message for killing a container. The code that kills the
// container appends ", will be restarted" if the container will be restarted, but never for an init
// container.
func (p Plan) killMessage(init bool) string {
	which := "Container"
	if init {
		which = "Init container"
	}
	return fmt.Sprintf("%s %s failed %s probe", which, p.Container, strings.ToLower(string(p.Kind)))
}
