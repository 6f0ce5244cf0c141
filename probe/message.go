package probe

import (
	"fmt"
	"strings"

	"github.com/podrun/podrun/event"
)

// eventOf gives the kubelet's event for what a probe came to; a success has
// none.
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

// killMessage says why a container is to be killed, in the kubelet's words. A
// container that will be restarted gets ", will be restarted" after it, an init
// container never does; that is for who kills it.
func (p Plan) killMessage(init bool) string {
	which := "Container"
	if init {
		which = "Init container"
	}
	return fmt.Sprintf("%s %s failed %s probe", which, p.Container, strings.ToLower(string(p.Kind)))
}
