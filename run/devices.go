package run

import (
	"github.com/podrun/podrun/run/store"

	"encoding/json"
	"fmt"
	"slices"

	"github.com/podrun/podrun/host"
)

// withDevices gives the plan's containers their CDI devices.
func (p *Plan) withDevices(devices map[string][]string) {
	p.Devices = devices
	for i := range p.Containers {
		p.Containers[i] = p.Containers[i].WithDevices(devices[p.Containers[i].Name])
	}
}

// devicesHere are the devices that the pod has been given before.
func (p *Plan) devicesHere() map[string][]string {
	at := slices.IndexFunc(p.facts.Pods, func(h host.Pod) bool { return h.UID == p.ID.UID })
	if at < 0 {
		return nil
	}
	return p.facts.Pods[at].Devices
}

// holdDevices keeps which devices the pod's containers have. The node's lock must
// be held.
func holdDevices(p *Plan) error {
	if len(p.Devices) == 0 && len(p.devicesHere()) == 0 {
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
