// Package transient starts and stops transient services of systemd: of the host's manager, or of the manager of an
// ordinary user. It connects to the manager's own socket, which requires no D-Bus daemon.
package transient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/podrun/podrun/internal/rootless"
)

// within limits a request to systemd.
const within = 30 * time.Second

// Property is a property of a unit (org.freedesktop.systemd1(5)).
type Property = systemd.Property

// Set returns a property.
func Set(name string, value any) Property {
	return Property{Name: name, Value: dbus.MakeVariant(value)}
}

// Command returns the property with the command of a service.
func Command(argv []string) Property { return systemd.PropExecStart(argv, false) }

// LastingCommand is Command for a service that remains active after the command has ended, for whatever reason.
// systemd reads the boolean as "ignore a failure".
func LastingCommand(argv []string) []Property {
	return []Property{systemd.PropExecStart(argv, true), Set("RemainAfterExit", true)}
}

// Descriptor is a file that a service inherits.
func Descriptor(f *os.File) dbus.UnixFD { return dbus.UnixFD(f.Fd()) }

// ErrExists means that systemd has a unit with this name already.
var ErrExists = errors.New("the unit exists")

// ErrExited means that a service has no main process.
var ErrExited = errors.New("its process has exited")

// ErrNoManager means that the user has no systemd manager.
var ErrNoManager = errors.New("no systemd manager of the user runs")

// Manager is a connection to a systemd manager.
type Manager struct{ conn *systemd.Conn }

// Host connects to the host's manager.
func Host(ctx context.Context) (Manager, error) {
	conn, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return Manager{}, fmt.Errorf("connect to systemd: %w", err)
	}
	return Manager{conn}, nil
}

// OfUser connects to the manager of the ordinary user who runs podrun. The error matches ErrNoManager if there is no
// socket of a manager.
func OfUser(ctx context.Context) (Manager, error) {
	path := rootless.ManagerSocket()
	if path == "" {
		return Manager{}, ErrNoManager
	}
	conn, err := systemd.NewConnection(func() (*dbus.Conn, error) {
		conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(path), dbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		// systemd compares this ID with that of the peer, which it sees from outside the user namespace.
		if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(rootless.UID()))}); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Manager{}, ErrNoManager
	}
	if err != nil {
		return Manager{}, fmt.Errorf("connect to the systemd manager of the user: %w", err)
	}
	return Manager{conn}, nil
}

// Close ends the connection. It does not affect units.
func (m Manager) Close() { m.conn.Close() }

// Start starts a transient service, and waits until systemd has started it: what this means depends on the service's
// type (systemd.service(5)). It does not end early with ctx: systemd might start the service nevertheless, and no
// podrun process would know it. The error matches ErrExists if a unit has this name.
func (m Manager) Start(ctx context.Context, unit string, properties []Property) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	done := make(chan string, 1)
	_, err := m.conn.StartTransientUnitContext(ctx, unit, "replace", properties, done)
	if failure, ok := errors.AsType[dbus.Error](err); ok && failure.Name == "org.freedesktop.systemd1.UnitExists" {
		err = ErrExists
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	return await(ctx, "start "+unit, done)
}

func await(ctx context.Context, what string, done <-chan string) error {
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s: its job finished with result %q", what, result)
		}
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	return nil
}

// Stop stops a unit, and waits until it has stopped. A unit that systemd does not have is not an error.
func (m Manager) Stop(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	done := make(chan string, 1)
	_, err := m.conn.StopUnitContext(ctx, unit, "replace", done)
	if failure, ok := errors.AsType[dbus.Error](err); ok && failure.Name == "org.freedesktop.systemd1.NoSuchUnit" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", unit, err)
	}
	return await(ctx, "stop "+unit, done)
}

// MainPID returns the main process of a service. The error matches ErrExited if it has none.
func (m Manager) MainPID(ctx context.Context, unit string) (int, error) {
	property, err := m.property(ctx, unit, "MainPID")
	if err != nil {
		return 0, fmt.Errorf("read the process of %s: %w", unit, err)
	}
	pid, ok := property.(uint32)
	if !ok || pid == 0 {
		return 0, fmt.Errorf("%s: %w", unit, ErrExited)
	}
	return int(pid), nil
}

// ControlGroup returns the path of a service's cgroup below the mount point of cgroup v2.
func (m Manager) ControlGroup(ctx context.Context, unit string) (string, error) {
	property, err := m.property(ctx, unit, "ControlGroup")
	if err != nil {
		return "", fmt.Errorf("read the cgroup of %s: %w", unit, err)
	}
	path, _ := property.(string)
	if path == "" {
		return "", errors.New(unit + " has no cgroup")
	}
	return path, nil
}

func (m Manager) property(ctx context.Context, unit, name string) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	property, err := m.conn.GetServicePropertyContext(ctx, unit, name)
	if err != nil {
		return nil, err
	}
	return property.Value.Value(), nil
}
