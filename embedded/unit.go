package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// unitWithin limits a request to systemd.
const unitWithin = 30 * time.Second

// spawnUnit starts containerd as a transient service with the settings of containerd's own unit
// file. With Delegate=, systemd does not manage its cgroup. With KillMode=process, systemd
// terminates only containerd, and not the shims. Neither a restart of podrun.service nor the
// end of a login session affects it. The service leaves nothing in systemd when it ends.
func spawnUnit(ctx context.Context, l Layout, unit string, argv, env []string) (int, error) {
	// If the command's time limit interrupted the request, systemd might start the service nevertheless, and no
	// podrun process would know it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unitWithin)
	defer cancel()
	// A connection to systemd's own socket requires no D-Bus daemon.
	conn, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	property := func(name string, value any) systemd.Property {
		return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	properties := []systemd.Property{
		systemd.PropDescription("Container runtime of podrun (" + l.RootDir + ")"),
		systemd.PropType("simple"),
		systemd.PropExecStart(argv, false),
		property("Environment", env),
		property("Delegate", true),
		property("KillMode", "process"),
		property("OOMScoreAdjust", int32(oomScore)),
		property("LimitNOFILE", uint64(openFiles)),
		property("LimitNOFILESoft", uint64(softFiles)),
		property("LimitNPROC", ^uint64(0)),
		property("LimitCORE", ^uint64(0)),
		property("TasksMax", ^uint64(0)),
		property("CollectMode", "inactive-or-failed"),
		property("StandardErrorFileToAppend", l.Log()),
		// When the host shuts down, podrun must stop its pods first.
		property("Before", []string{"podrun.service"}),
	}
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, unit, "replace", properties, done); err != nil {
		return 0, fmt.Errorf("start %s: %w", unit, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return 0, fmt.Errorf("start %s: its job finished with result %q", unit, result)
		}
	case <-ctx.Done():
		return 0, fmt.Errorf("start %s: %w", unit, context.Cause(ctx))
	}
	main, err := conn.GetServicePropertyContext(ctx, unit, "MainPID")
	if err != nil {
		return 0, fmt.Errorf("read the process of %s: %w", unit, err)
	}
	pid, ok := main.Value.Value().(uint32)
	if !ok || pid == 0 {
		return 0, errors.New(unit + " exited immediately")
	}
	return int(pid), nil
}
