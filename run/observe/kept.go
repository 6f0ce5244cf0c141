package observe

import (
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// ReadKept reads the part of the status that the pod's owner recorded. It returns the zero value if
// nothing was recorded or the file cannot be read.
func ReadKept(l identity.Layout, uid string) lifecycle.Kept {
	s, _ := store.ReadPodState(l, uid)
	return s.Kept
}

// ReadImageFailures reads the reasons why containers wait for their images.
func ReadImageFailures(l identity.Layout, uid string) map[string]lifecycle.Failure {
	var out map[string]lifecycle.Failure
	for name, f := range imagepull.ReadFailures(l.ImageBackOff(), uid, time.Now()) {
		if out == nil {
			out = map[string]lifecycle.Failure{}
		}
		out[name] = lifecycle.Failure{Waiting: lifecycle.Waiting{Reason: f.Reason, Message: f.Message}, At: f.At}
	}
	return out
}
