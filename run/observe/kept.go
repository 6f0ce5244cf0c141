package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// readKept reads the part of the status that the pod's owner recorded; nothing if there
// is none.
func readKept(l identity.Layout, uid string) (kept lifecycle.Kept, err error) {
	data, err := store.ReadState(l.SavedStatus(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err == nil && len(data) == 0 {
		return kept, nil // lost with the power: see store.WriteStateUnsynced
	}
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	switch {
	case err == nil:
		return kept, nil
	case store.StateNewer(l.SavedStatus(uid)):
		return lifecycle.Kept{}, nil // of a form that this podrun does not know
	}
	return lifecycle.Kept{}, fmt.Errorf("read the kept status: %w", inFile(l.SavedStatus(uid), err))
}

// ReadKept reads the part of the status that the pod's owner recorded; the zero value if there
// is none, or that cannot be read.
func ReadKept(l identity.Layout, uid string) lifecycle.Kept {
	kept, err := readKept(l, uid)
	if err != nil {
		return lifecycle.Kept{}
	}
	return kept
}

// readImageFailures reads why containers wait for their images.
func readImageFailures(l identity.Layout, uid string) map[string]lifecycle.Failure {
	var out map[string]lifecycle.Failure
	for name, f := range imagepull.ReadFailures(l.ImageBackOff(), uid, time.Now()) {
		if out == nil {
			out = map[string]lifecycle.Failure{}
		}
		out[name] = lifecycle.Failure{Waiting: lifecycle.Waiting{Reason: f.Reason, Message: f.Message}, At: f.At}
	}
	return out
}
