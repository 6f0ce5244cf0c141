package userns

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/podrun/podrun/embedded/transient"
	"github.com/podrun/podrun/internal/rootless"
)

// Delegation is the cgroup in which the systemd manager of an ordinary user lets podrun create cgroups.
type Delegation struct {
	Cgroup string // below the mount point; "" if there is none
	Reason string // why there is none
}

// Delegate starts the service whose cgroup contains those of the user's pods, unless it runs. Its process only waits, in
// a cgroup of its own: a cgroup that distributes resources can have no processes, and systemd removes an empty one. The
// service survives podrun-rootless and containerd, which are services of their own, because each of their starts
// needs a new service, but the cgroups of running pods cannot move.
func Delegate(ctx context.Context, o Options) Delegation {
	if reason := rootless.Undelegated(); reason != "" {
		return Delegation{Reason: reason}
	}
	manager, err := transient.OfUser(ctx)
	if err != nil {
		return Delegation{Reason: err.Error()}
	}
	defer manager.Close()
	path, err := startHolder(ctx, manager, o)
	if err != nil {
		return Delegation{Reason: err.Error()}
	}
	return Delegation{Cgroup: path}
}

// startHolder starts the service, and returns the path of its cgroup.
func startHolder(ctx context.Context, manager transient.Manager, o Options) (string, error) {
	unit := podsUnit(o.RunDir)
	properties := append(transient.LastingCommand([]string{filepath.Join(o.Bin, enter), "--wait"}),
		transient.Set("Description", "cgroups of the pods of podrun"),
		transient.Set("Type", "exec"), // its process is then in the cgroup, and systemd does not move it again
		transient.Set("Delegate", true),
		transient.Set("OOMPolicy", "continue"), // the end of a container must not end all pods
		transient.Set("TasksMax", ^uint64(0)),
		transient.Set("TimeoutStopUSec", uint64(stopWithin)),
		transient.Set("CollectMode", "inactive-or-failed"),
		transient.Set("Before", []string{"podrun.service"}),
	)
	err := manager.Start(ctx, unit, properties)
	pid, path := 0, ""
	if err == nil || errors.Is(err, transient.ErrExists) {
		pid, path, err = holder(ctx, manager, unit)
	}
	if errors.Is(err, transient.ErrExited) {
		// The process of an earlier start was killed, with all others.
		if err = manager.Stop(ctx, unit); err == nil {
			err = manager.Start(ctx, unit, properties)
		}
		if err == nil {
			pid, path, err = holder(ctx, manager, unit)
		}
	}
	if err != nil {
		return "", err
	}
	dir := rootless.CgroupMount + path
	if len(rootless.Controllers(dir)) == 0 {
		return "", errors.New("systemd delegates no controller to the user")
	}
	leaf := filepath.Join(dir, "wait")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// holder returns the process and the cgroup of the service.
func holder(ctx context.Context, manager transient.Manager, unit string) (pid int, path string, err error) {
	if pid, err = manager.MainPID(ctx, unit); err == nil {
		path, err = manager.ControlGroup(ctx, unit)
	}
	return pid, path, err
}

// stopWithin is the time, in µs, that containers have to exit when systemd stops the service, such as at the shutdown
// of the host. `podrun serve` has stopped before.
const stopWithin = 10_000_000

// Undelegate stops the service that Delegate started. There must be no more pods.
func Undelegate(ctx context.Context, runDir string) error {
	manager, err := transient.OfUser(ctx)
	if errors.Is(err, transient.ErrNoManager) {
		return nil // it has ended, with its services
	}
	if err != nil {
		return err
	}
	defer manager.Close()
	return manager.Stop(ctx, podsUnit(runDir))
}

// podsUnit is the name of the service whose cgroup contains those of pods.
func podsUnit(runDir string) string { return "podrun-pods-" + hash(runDir) + ".service" }

// keeperUnit returns a name for the service of podrun-rootless. Each start uses another one, because systemd keeps a
// service whose cgroup still has processes.
func keeperUnit(runDir string) string {
	word := make([]byte, 4)
	rand.Read(word) // it never fails
	return keeper + "-" + hash(runDir) + "-" + hex.EncodeToString(word) + ".service"
}

func hash(runDir string) string {
	sum := sha256.Sum256([]byte(runDir))
	return hex.EncodeToString(sum[:4])
}

// startUnit starts podrun-rootless as a service of the user's manager. The service keeps the end of the pipe.
func (o Options) startUnit(ctx context.Context, argv []string, to *os.File) error {
	manager, err := transient.OfUser(ctx)
	if err != nil {
		return err
	}
	defer manager.Close()
	kind := "forking" // the first process exits when its child has the ID maps
	if o.Inside != nil {
		kind = "simple"
	}
	return manager.Start(ctx, keeperUnit(o.RunDir), []transient.Property{
		transient.Set("Description", "namespaces of the pods of podrun"),
		transient.Set("Type", kind),
		transient.Command(slices.Concat(argv, []string{"--ready-stdout"})),
		transient.Set("Environment", environment()),
		transient.Set("KillMode", "process"),
		transient.Set("TasksMax", ^uint64(0)),
		transient.Set("CollectMode", "inactive-or-failed"),
		transient.Set("StandardOutputFileDescriptor", transient.Descriptor(to)),
		transient.Set("StandardErrorFileToAppend", o.log()),
		transient.Set("Before", []string{"podrun.service"}),
	})
}
