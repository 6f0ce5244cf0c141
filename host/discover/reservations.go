package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/hostfile"
	"github.com/podrun/podrun/identity"
)

// readReservations reads what running podruns keep free for pods that they are about to
// replace, update or start again. It comes before the runtime is asked for its
// pods: who gives a promise up has its pod running by then, so that one of the two
// is seen.
func (m machine) readReservations(layout identity.Layout) ([]host.Pod, error) {
	entries, err := os.ReadDir(layout.Reservations())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, trouble("list the reservations", err, "")
	}
	var out []host.Pod
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // is being written
		}
		reservation, ok, err := m.readReservation(filepath.Join(layout.Reservations(), e.Name()))
		if err != nil {
			m.unreadable.add("reservation of resources", err)
		} else if ok {
			out = append(out, reservation)
		}
	}
	return out, nil
}

// addReservations adds the reserved to the pods. A pod that has one holds the more of what
// it has and of what it will have: the one goes before the other comes.
func addReservations(pods, reserved []host.Pod) []host.Pod {
	for _, reservation := range reserved {
		at := slices.IndexFunc(pods, func(p host.Pod) bool {
			return p.Managed && p.Namespace == reservation.Namespace && p.Name == reservation.Name
		})
		if at < 0 {
			pods = append(pods, reservation)
		} else {
			pods[at] = both(pods[at], reservation)
		}
	}
	return pods
}

// readReservation reads one promise. It is void once its maker does not hold its lock
// any more.
func (m machine) readReservation(path string) (reservation host.Pod, ok bool, err error) {
	f, err := hostfile.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return reservation, false, nil
	}
	if err != nil {
		return reservation, false, err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return reservation, false, nil
	}
	data, err := hostfile.Read(m.ctx, path, maxState)
	if err == nil {
		err = json.Unmarshal(data, &reservation)
	}
	if err == nil && reservation.Name == "" {
		err = errors.New("it names no pod")
	}
	if err != nil {
		return reservation, false, fmt.Errorf("%s: %w", path, err)
	}
	return reservation, true, nil
}

// both is a pod that holds what it has and what was promised to it: of each
// resource the more.
func both(has, reservation host.Pod) host.Pod {
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
