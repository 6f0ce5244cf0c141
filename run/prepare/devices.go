package prepare

import (
	"slices"

	"github.com/podrun/podrun/host"
)

// WithDevices gives the plan's containers their CDI devices.
func (p *Plan) WithDevices(devices map[string][]string) {
	p.Devices = devices
	for i := range p.Containers {
		p.Containers[i] = p.Containers[i].WithDevices(devices[p.Containers[i].Name])
	}
}

// DevicesHere are the devices that the pod has been given before.
func (p *Plan) DevicesHere() map[string][]string {
	at := slices.IndexFunc(p.Facts.Pods, func(h host.Pod) bool { return h.UID == p.ID.UID })
	if at < 0 {
		return nil
	}
	return p.Facts.Pods[at].Devices
}
