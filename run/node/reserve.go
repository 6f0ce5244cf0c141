package node

import (
	"encoding/json"
	"fmt"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// HoldResources reserves what a pod that is on this host already will ask for: a
// locked file that counts for other admissions. The node's lock must be held.
func (n *Node) HoldResources(p *prepare.Plan) (*store.LockedFile, error) {
	data, err := json.Marshal(admission.Describe(p.Pod, p.Devices))
	if err != nil {
		return nil, fmt.Errorf("pod %s: reserve its resources: %w", p.ID, err)
	}
	reserved, err := store.MakeLockedFile(n.Layout().Reservations(), "", data)
	if err != nil {
		return nil, fmt.Errorf("pod %s: reserve its resources: %w", p.ID, err)
	}
	return reserved, nil
}

// holdDevices keeps which devices the pod's containers have. The node's lock must
// be held.
func holdDevices(p *prepare.Plan) error {
	if len(p.Devices) == 0 && len(p.DevicesHere()) == 0 {
		return nil
	}
	data, err := json.Marshal(p.Devices)
	if err == nil {
		err = store.WriteState(p.Layout.Devices(p.ID.UID), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("pod %s: keep which devices it has: %w", p.ID, err)
	}
	return nil
}
