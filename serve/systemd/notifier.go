package systemd

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// sendLimit limits the time to send a message to systemd, whose queue may be full.
const sendLimit = 2 * time.Second

// Notifier reports the state of this process to systemd with the protocol of sd_notify(3). A nil Notifier, or one
// without a socket, does nothing. It is safe for concurrent use. Every method takes at most 2 s. An error affects
// only the message of that call.
type Notifier struct{ socket string }

// NewNotifier returns the notifier for socket, the value of NOTIFY_SOCKET. It is empty if no
// service manager expects messages. The caller must unset the variable, so that other processes do
// not inherit it.
func NewNotifier(socket string) (*Notifier, error) {
	if socket == "" {
		return &Notifier{}, nil
	}
	if err := socketAddress(socket); err != nil {
		return nil, err
	}
	return &Notifier{socket: socket}, nil
}

// Enabled reports whether the notifier has a socket.
func (n *Notifier) Enabled() bool { return n != nil && n.socket != "" }

// Ready reports that the start or a reload is complete.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Status sets the text that `systemctl status` shows. The text becomes one line of at most 512 bytes, with spaces in
// place of control characters.
func (n *Notifier) Status(text string) error { return n.send(statusMessage(text)) }

// Reloading reports the beginning of a reload, which Ready ends. The message contains the
// timestamp that Type=notify-reload requires.
func (n *Notifier) Reloading() error {
	if !n.Enabled() {
		return nil
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("notify systemd: read CLOCK_MONOTONIC: %w", err)
	}
	return n.send(reloadingMessage(time.Duration(now.Nano())))
}

// Stopping reports the beginning of the shutdown.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Watchdog reports that the process makes progress; see WatchdogInterval.
func (n *Notifier) Watchdog() error { return n.send("WATCHDOG=1") }

// send sends a message. It connects for each message, because the name may belong to another socket
// after `systemctl daemon-reexec`.
func (n *Notifier) send(message string) error {
	if !n.Enabled() {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	if _, err := conn.Write([]byte(message)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
