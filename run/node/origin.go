package node

import (
	"encoding/json"
	"fmt"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// setOrigin sets the origin that lock records for a target, with this node's settings. podrun records
// the origin immediately if the pod is new or already has the definition. Otherwise podrun records
// the origin when the definition takes effect. Until then the previous origin applies, so that the
// pod's source still decides whether the pod is deleted if podrun cannot apply the new definition.
func (n *Node) setOrigin(t prepare.Target, lock *store.PodLock, o AdmitOptions) error {
	lock.Origin = nil
	lock.NextOrigin = nil
	if o.Debug != nil {
		return nil
	}
	data, err := json.Marshal(n.Settings)
	if err != nil {
		return fmt.Errorf("pod %s: save its settings: %w", t.Plan.ID, err)
	}
	origin := o.Origin
	if o.FromCheckpoint {
		before, err := lock.Owner()
		if err != nil {
			return err
		}
		if before != nil && before.Origin != nil && before.Origin.Command != store.OriginRun {
			origin.Command = before.Origin.Command
		}
	}
	origin.Settings = data
	if t.Change == prepare.ChangeNew || t.Change == prepare.ChangeUnchanged {
		lock.Origin = &origin
	} else {
		lock.NextOrigin = &origin
	}
	return nil
}

// AppliedSettings returns the settings with which a pod was applied. It reads them from the pod's
// owner record, and uses this node's settings for those that the record does not contain. The
// settings for the connection to the runtime and for podrun's state are always those of this node.
// If AppliedSettings cannot read the recorded settings, it sends a warning and returns this node's
// settings.
func (n *Node) AppliedSettings(r *store.OwnerRecord) nodeconfig.Settings {
	s := n.Settings
	if r == nil || r.Origin == nil || len(r.Origin.Settings) == 0 {
		return s
	}
	if err := json.Unmarshal(r.Origin.Settings, &s); err != nil {
		n.WarnOnce(problem.Problem{Object: "pod with UID " + r.UID,
			Message: "podrun uses the node's settings, because the pod's saved settings cannot be read: " + err.Error()})
		return n.Settings
	}
	s.RootDir = n.Settings.RootDir
	s.ContainerRuntimeEndpoint = n.Settings.ContainerRuntimeEndpoint
	s.ImageServiceEndpoint = n.Settings.ImageServiceEndpoint
	s.Runtime = n.Settings.Runtime
	s.RuntimeRequestTimeout = n.Settings.RuntimeRequestTimeout
	return s
}
