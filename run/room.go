package run

import (
	"github.com/podrun/podrun/run/store"

	"encoding/json"
	"fmt"
	"slices"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
)

// runs tells whether the plan's pod has a sandbox that is ready, by the facts.
func (p *Plan) runs() bool {
	return slices.ContainsFunc(p.facts.Pods, func(h host.Pod) bool { return h.UID == p.ID.UID && h.Ready })
}

// holdRoom reserves what a pod that is on this host already will ask for: a
// locked file that counts for other admissions. The node's lock must be held.
func (e *Engine) holdRoom(p *Plan) (*store.LockedFile, error) {
	data, err := json.Marshal(admission.Describe(p.Pod, p.Devices))
	if err != nil {
		return nil, fmt.Errorf("pod %s: reserve its resources: %w", p.ID, err)
	}
	room, err := store.MakeLockedFile(e.layout().Rooms(), "", data)
	if err != nil {
		return nil, fmt.Errorf("pod %s: reserve its resources: %w", p.ID, err)
	}
	return room, nil
}
