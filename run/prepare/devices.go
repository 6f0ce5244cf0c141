package prepare

import (
	"slices"

	"github.com/podrun/podrun/host"
)

// WithDevices sets the CDI devices of the plan's containers.
func (p *Plan) WithDevices(devices map[string][]string) {
	p.Devices = devices
	for i := range p.Containers {
		p.Containers[i] = p.Containers[i].WithDevices(devices[p.Containers[i].Name])
	}
}

// AssignedDevices returns the devices that the pod already has.
func (p *Plan) AssignedDevices() map[string][]string {
	at := slices.IndexFunc(p.Facts.Pods, func(h host.Pod) bool { return h.UID == p.ID.UID })
	if at < 0 {
		return nil
	}
	return p.Facts.Pods[at].Devices
}
