package discover

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/statefile"
)

// readReservations reads the resources that running podrun processes reserve for pods that they
// will replace, update or restart. Call it before you list the runtime's pods. A process releases
// a reservation only when its pod runs, so in this order podrun always finds the reservation, the
// pod or both.
func (m podState) readReservations() ([]host.Pod, error) {
	entries, err := os.ReadDir(m.layout.Reservations())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, factError("list the reservations", err, "")
	}
	var out []host.Pod
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // being written
		}
		if reservation, ok := m.readReservation(filepath.Join(m.layout.Reservations(), e.Name())); ok {
			out = append(out, reservation)
		}
	}
	return out, nil
}

// addReservations adds the reservations to the pods. A pod with a reservation counts with the
// maximum of its current and its reserved resources: it first releases the current ones, and then
// uses the reserved ones.
func addReservations(pods []*host.Pod, reserved []host.Pod) []*host.Pod {
	for i := range reserved {
		reservation := &reserved[i]
		at := slices.IndexFunc(pods, func(p *host.Pod) bool {
			return p.Managed && p.Namespace == reservation.Namespace && p.Name == reservation.Name
		})
		if at < 0 {
			pods = append(pods, reservation)
		} else {
			*pods[at] = combined(*pods[at], *reservation)
		}
	}
	return pods
}

// readReservation reads one reservation. ok is false if the process that made the reservation
// has released the file's lock.
func (m podState) readReservation(path string) (reservation host.Pod, ok bool) {
	if !hostfile.IsLocked(path) {
		return reservation, false
	}
	found := reservationFile.Examine(m.ctx, path)
	m.unreadable.add(found.Fault)
	return found.Value, found.State == statefile.Intact
}

// combined returns a pod with the maximum of its current and its reserved amount of each
// resource.
func combined(has, reservation host.Pod) host.Pod {
	has.Reserved = true
	requests := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{has.Requests, reservation.Requests} {
		for name, q := range list {
			if have, ok := requests[name]; !ok || q.Cmp(have) > 0 {
				requests[name] = q
			}
		}
	}
	has.Requests = requests
	devices := map[string][]string{}
	for _, had := range []map[string][]string{has.Devices, reservation.Devices} {
		for container, ids := range had {
			devices[container] = append(devices[container], ids...)
		}
	}
	has.Devices = devices
	for _, p := range reservation.HostPorts {
		if !slices.Contains(has.HostPorts, p) {
			has.HostPorts = append(has.HostPorts, p)
		}
	}
	return has
}
