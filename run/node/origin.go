package node

import (
	"encoding/json"
	"fmt"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// takeOrigin makes the origin of a target, with this node's settings, the one that the
// lock records: at once if the pod has the definition already or is new, otherwise when
// the definition takes effect. Until then the pod is what it was: if its new definition
// cannot be applied, its source still decides whether the pod is deleted.
func (n *Node) takeOrigin(t prepare.Target, lock *store.PodLock, o AdmitOptions) error {
	lock.Origin, lock.NextOrigin = nil, nil
	if o.Debug != nil {
		return nil
	}
	data, err := json.Marshal(n.Settings)
	if err != nil {
		return fmt.Errorf("pod %s: keep its settings: %w", t.Plan.ID, err)
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

// AppliedSettings are the settings that a pod was applied with: what an owner record
// keeps, over this node's. How the runtime is reached and where podrun keeps its
// state are always this node's. Settings that cannot be read are this node's, with a
// warning.
func (n *Node) AppliedSettings(r *store.OwnerRecord) nodeconfig.Settings {
	s := n.Settings
	if r == nil || r.Origin == nil || len(r.Origin.Settings) == 0 {
		return s
	}
	if err := json.Unmarshal(r.Origin.Settings, &s); err != nil {
		n.WarnOnce(problem.Problem{Object: "pod of UID " + r.UID, Message: "its settings cannot be read, podrun uses the node's: " + err.Error()})
		return n.Settings
	}
	s.RootDir, s.ContainerRuntimeEndpoint, s.ImageServiceEndpoint = n.Settings.RootDir, n.Settings.ContainerRuntimeEndpoint, n.Settings.ImageServiceEndpoint
	s.Runtime, s.RuntimeRequestTimeout = n.Settings.Runtime, n.Settings.RuntimeRequestTimeout
	return s
}
