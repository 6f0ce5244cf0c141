package discover

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// PressureFile contains, for each condition of the node, the time until which a supervisor considers the
// node under pressure.
var PressureFile = statefile.Declare(statefile.Kind[map[corev1.NodeConditionType]time.Time]{
	What: "the pressure of the node", Files: "serve/pressure", Scope: statefile.Host,
	On:    statefile.Answers{Absent: "no pressure", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Partial},
	Paths: statefile.At(identity.Layout.Serve, identity.ServeDir.Pressure), Limit: maxState, Mode: 0o644, Unsynced: true,
})

// ShutdownFile contains the ID of the boot that ends with a shutdown.
var ShutdownFile = statefile.Declare(statefile.Kind[string]{
	What: "the record that this host shuts down", Files: "serve/shutdown", Scope: statefile.Host,
	On:    statefile.Answers{Absent: "no shutdown", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Partial},
	Paths: statefile.At(identity.Layout.Serve, identity.ServeDir.ShuttingDown), Mode: 0o644,
	Encode: func(boot string) ([]byte, error) { return []byte(boot), nil },
	Decode: func(data []byte) (string, error) {
		boot := strings.TrimSpace(string(data))
		if len(boot) != len("01234567-89ab-cdef-0123-456789abcdef") || strings.Trim(boot, "0123456789abcdef-") != "" {
			return boot, errors.New("it is not the ID of a boot")
		}
		return boot, nil
	},
})

// DevicesFile contains the devices that each container of a pod has.
var DevicesFile = statefile.Declare(statefile.Kind[map[string][]string]{
	What: "the devices of a pod", Files: "pods/<uid>/devices", Scope: statefile.OfPod,
	On:    statefile.Answers{Absent: "no devices", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Partial},
	Paths: statefile.EachPod(identity.PodDir.Devices), Limit: maxState, Mode: 0o600, Unsynced: true,
})

// userNSFile contains a pod's range of host IDs, in the kubelet's format. Two pods must never share a range:
// until the runtime reports the range of a lost record, podrun assigns none to other pods.
var userNSFile = statefile.Declare(statefile.Kind[uint32]{
	What: "the host IDs of a pod", Files: "pods/<uid>/userns", Scope: statefile.OfPod,
	On:     statefile.Answers{Absent: "no user namespace", Corrupt: fromRuntime, Unreadable: fromRuntime, Newer: statefile.Ignore},
	Paths:  statefile.EachPod(identity.PodDir.UserNS),
	Format: statefile.Unversioned, Limit: maxState, Mode: 0o600,
	Decode: func(data []byte) (uint32, error) {
		var ns host.UserNS
		_, err := sigsjson.UnmarshalStrict(data, &ns)
		if err == nil && (len(ns.UIDs) != 1 || ns.UIDs[0].HostID == 0) {
			err = errors.New("the file does not contain exactly one range")
		}
		if err != nil {
			return 0, err
		}
		return ns.UIDs[0].HostID, nil
	},
})

// fromRuntime is the answer of userNSFile.
const fromRuntime statefile.Action = "podrun reads the range from the runtime, with a warning"

// reservationFile is the file of a process that reserves resources for a pod. It is valid while the process
// holds its lock.
var reservationFile = statefile.Declare(statefile.Kind[host.Pod]{
	What: "a reservation of resources", Files: "reservations/<random>", Scope: statefile.OfPod,
	On:     statefile.Answers{Absent: "nothing is reserved", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Ignore},
	Paths:  lockedReservations,
	Format: statefile.Unversioned, Limit: maxState,
	Decode: func(data []byte) (p host.Pod, err error) {
		err = json.Unmarshal(data, &p)
		if err == nil && p.Name == "" {
			err = errors.New("it does not name a pod")
		}
		return p, err
	},
})

// checkpointText is a checkpoint of which podrun decodes only a part. Package run/store declares the kind.
var checkpointText = statefile.Kind[[]byte]{
	What: "the checkpoint", Limit: identity.MaxCheckpoint, Decode: func(data []byte) ([]byte, error) { return data, nil },
}

// lockedReservations returns the files of running processes.
func lockedReservations(l identity.Layout) (out []string) {
	entries, _ := os.ReadDir(l.Reservations()) // readReservations reports the error
	for _, e := range entries {
		path := filepath.Join(l.Reservations(), e.Name())
		if hostfile.IsLocked(path) {
			out = append(out, path)
		}
	}
	return out
}
