package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/godbus/dbus/v5"
)

// The address of logind on the system bus (org.freedesktop.login1(5)).
const (
	logindName   = "org.freedesktop.login1"
	logindPath   = dbus.ObjectPath("/org/freedesktop/login1")
	logindIface  = logindName + ".Manager"
	prepareEvent = "PrepareForShutdown"
)

// logindTimeout limits a call to logind.
const logindTimeout = 10 * time.Second

// Logind is a connection to systemd-logind, which announces and can delay a shutdown of this host.
type Logind struct {
	conn   *dbus.Conn
	events chan bool
}

// DialLogind connects to logind over the system bus, and begins to listen. The connection
// is closed when ctx is done, or by Close.
func DialLogind(ctx context.Context) (*Logind, error) {
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	l := &Logind{conn: conn, events: make(chan bool, 1)}
	bounded, cancel := context.WithTimeout(ctx, logindTimeout)
	defer cancel()
	signals := make(chan *dbus.Signal, 8)
	conn.Signal(signals)
	err = conn.AddMatchSignalContext(bounded, dbus.WithMatchSender(logindName), dbus.WithMatchInterface(logindIface),
		dbus.WithMatchMember(prepareEvent), dbus.WithMatchObjectPath(logindPath))
	if err == nil {
		// The call makes the bus start logind, or fails if logind is not installed.
		_, err = l.DelayMax(bounded)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to logind's signals: %w", err), conn.Close())
	}
	go l.forward(ctx, signals)
	return l, nil
}

// forward forwards announcements until the connection ends.
func (l *Logind) forward(ctx context.Context, signals <-chan *dbus.Signal) {
	defer close(l.events)
	for s := range signals {
		if s.Name != logindIface+"."+prepareEvent || len(s.Body) != 1 {
			continue
		}
		begins, ok := s.Body[0].(bool)
		if !ok {
			continue
		}
		select {
		case l.events <- begins:
		case <-ctx.Done():
			return
		}
	}
}

// Events receives true when a shutdown begins, and false when a shutdown was canceled. It is
// closed when the connection ends.
func (l *Logind) Events() <-chan bool { return l.events }

// Inhibit takes a lock that delays shutdowns until it is released, but at most for
// DelayMax.
func (l *Logind) Inhibit(ctx context.Context) (release func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, logindTimeout)
	defer cancel()
	var fd dbus.UnixFD
	call := l.conn.Object(logindName, logindPath).CallWithContext(ctx, logindIface+".Inhibit", 0, "shutdown", "podrun", "podrun stops pods before the host shuts down", "delay")
	if err := call.Store(&fd); err != nil {
		return nil, fmt.Errorf("take an inhibitor lock of logind: %w", err)
	}
	return os.NewFile(uintptr(fd), "logind inhibitor").Close, nil
}

// DelayMax returns the maximum time for which logind delays a shutdown: its
// InhibitDelayMaxSec.
func (l *Logind) DelayMax(ctx context.Context) (time.Duration, error) {
	var us uint64
	err := l.property(ctx, "InhibitDelayMaxUSec", &us)
	return time.Duration(us) * time.Microsecond, err
}

// Preparing reports whether a shutdown has begun.
func (l *Logind) Preparing(ctx context.Context) (begun bool, err error) {
	err = l.property(ctx, "PreparingForShutdown", &begun)
	return begun, err
}

func (l *Logind) property(ctx context.Context, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, logindTimeout)
	defer cancel()
	var v dbus.Variant
	err := l.conn.Object(logindName, logindPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, logindIface, name).Store(&v)
	if err == nil {
		err = v.Store(into)
	}
	if err != nil {
		return fmt.Errorf("read %s of logind: %w", name, err)
	}
	return nil
}

// Close closes the connection. Locks remain until they are released.
func (l *Logind) Close() error { return l.conn.Close() }
