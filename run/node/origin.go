package node

import (
	"encoding/json"
	"fmt"

	"github.com/podrun/podrun/nodeconfig"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/store"
)

// origin records where a pod comes from, with this node's settings.
func (n *Node) origin(o store.Origin) (*store.Origin, error) {
	data, err := json.Marshal(n.Settings)
	if err != nil {
		return nil, fmt.Errorf("keep the settings of a pod: %w", err)
	}
	o.Settings = data
	return &o, nil
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
