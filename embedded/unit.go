package embedded

import (
	"context"

	"github.com/podrun/podrun/embedded/transient"
)

// spawnUnit starts containerd as a transient service of the host's systemd, with the settings of containerd's own unit
// file. With Delegate=, systemd does not manage its cgroup. With KillMode=process, systemd terminates only containerd,
// and not the shims. Neither a restart of podrun.service nor the end of a login session affects it. The service leaves
// nothing in systemd when it ends.
func spawnUnit(ctx context.Context, l Layout, unit string, argv, env []string) (int, error) {
	manager, err := transient.Host(ctx)
	if err != nil {
		return 0, err
	}
	defer manager.Close()
	return startUnit(ctx, manager, unit, append(unitProperties(l, argv, env),
		transient.Set("OOMScoreAdjust", int32(oomScore)),
		transient.Set("LimitNOFILE", uint64(openFiles)),
		transient.Set("LimitNOFILESoft", uint64(softFiles)),
		transient.Set("LimitNPROC", ^uint64(0)),
		transient.Set("LimitCORE", ^uint64(0)),
	))
}

// spawnUserUnit is spawnUnit for the systemd manager of an ordinary user: enter makes the process enter the namespaces
// of podrun-rootless. Containers must be started from a cgroup of this manager, because the kernel permits to move a
// process only between cgroups of which the user owns a common parent. The manager cannot raise limits.
func spawnUserUnit(ctx context.Context, l Layout, unit string, enter, env []string) (int, error) {
	manager, err := transient.OfUser(ctx)
	if err != nil {
		return 0, err
	}
	defer manager.Close()
	return startUnit(ctx, manager, unit, append(unitProperties(l, enter, env), transient.Set("LimitNOFILESoft", uint64(softFiles))))
}

func unitProperties(l Layout, argv, env []string) []transient.Property {
	return []transient.Property{
		transient.Set("Description", "Container runtime of podrun ("+l.RootDir+")"),
		transient.Set("Type", "simple"),
		transient.Command(argv),
		transient.Set("Environment", env),
		transient.Set("Delegate", true),
		transient.Set("KillMode", "process"),
		transient.Set("TasksMax", ^uint64(0)),
		transient.Set("CollectMode", "inactive-or-failed"),
		transient.Set("StandardErrorFileToAppend", l.Log()),
		// When the host shuts down, podrun must stop its pods first.
		transient.Set("Before", []string{"podrun.service"}),
	}
}

func startUnit(ctx context.Context, manager transient.Manager, unit string, properties []transient.Property) (int, error) {
	if err := manager.Start(ctx, unit, properties); err != nil {
		return 0, err
	}
	return manager.MainPID(ctx, unit)
}
