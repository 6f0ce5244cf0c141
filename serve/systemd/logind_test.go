package systemd

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/podrun/podrun/test/patience"
)

// privateBus starts a message bus that replaces the system bus in the test.
func privateBus(t *testing.T) {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	must(t, os.WriteFile(config, []byte(`<busconfig><type>system</type><listen>unix:dir=`+dir+`</listen>
<policy context="default"><allow send_destination="*"/><allow own="*"/><allow receive_sender="*"/></policy></busconfig>`), 0o600))
	c := exec.Command(daemon, "--config-file="+config, "--nofork", "--print-address")
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() {
		// the bus may have already exited
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", strings.TrimSpace(address))
}

// fakeLogind implements logind on the bus. A lock is a pipe: the client holds the write end.
type fakeLogind struct {
	t     *testing.T
	conn  *dbus.Conn
	locks chan *os.File // the read ends of the pipes
	// the write ends of the pipes, which must be closed when the client has received them
	sent  chan *os.File
	asked chan []string
}

func (f *fakeLogind) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	f.locks <- r
	f.asked <- []string{what, who, mode}
	f.sent <- w
	return dbus.UnixFD(w.Fd()), nil
}

func startLogind(t *testing.T) *fakeLogind {
	t.Helper()
	conn, err := dbus.ConnectSystemBus()
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	f := &fakeLogind{t: t, conn: conn, locks: make(chan *os.File, 4), sent: make(chan *os.File, 4), asked: make(chan []string, 4)}
	must(t, conn.Export(f, logindPath, logindIface))
	_, err = prop.Export(conn, logindPath, prop.Map{logindIface: {
		"InhibitDelayMaxUSec":  {Value: uint64(35_000_000)},
		"PreparingForShutdown": {Value: false},
	}})
	must(t, err)
	if reply, err := conn.RequestName(logindName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("own the name of logind: %v, %v", reply, err)
	}
	return f
}

func (f *fakeLogind) announce(begins bool) {
	f.t.Helper()
	must(f.t, f.conn.Emit(logindPath, logindIface+"."+prepareEvent, begins))
}

// TestLogind checks on a real message bus that a shutdown can be announced and delayed.
func TestLogind(t *testing.T) {
	privateBus(t)
	if _, err := DialLogind(t.Context()); err == nil {
		t.Fatal("connected although logind does not run")
	}
	f := startLogind(t)
	l, err := DialLogind(t.Context())
	must(t, err)
	if d, err := l.DelayMax(t.Context()); err != nil || d != 35*time.Second {
		t.Errorf("delay %s, %v", d, err)
	}
	if begun, err := l.Preparing(t.Context()); err != nil || begun {
		t.Errorf("preparing %t, %v", begun, err)
	}
	release, err := l.Inhibit(t.Context())
	must(t, err)
	if got := strings.Join(<-f.asked, " "); got != "shutdown podrun delay" {
		t.Errorf("asked for %s", got)
	}
	must(t, (<-f.sent).Close())
	lock := <-f.locks
	must(t, lock.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if _, err := lock.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the lock is not held: %v", err)
	}
	must(t, release())
	must(t, lock.SetReadDeadline(time.Time{}))
	if _, err := lock.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the lock is held: %v", err)
	}
	for _, begins := range []bool{true, false} {
		f.announce(begins)
		if got := patience.Receive(t, "an event", l.Events()); got != begins {
			t.Errorf("event %t, want %t", got, begins)
		}
	}
	// Another program cannot announce a shutdown, because its messages have another sender.
	other, err := dbus.ConnectSystemBus()
	must(t, err)
	defer other.Close()
	must(t, other.Emit(logindPath, logindIface+"."+prepareEvent, true))
	f.announce(false)
	if got := <-l.Events(); got {
		t.Error("another program's message is treated as logind's")
	}
	must(t, l.Close())
	if _, open := <-l.Events(); open {
		t.Error("events continue after the connection has ended")
	}
}

// TestLogindEndsWithItsContext checks that a connection to a bus that does not respond ends
// with its context.
func TestLogindEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	defer syscall.Close(fd)
	must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(dir, "bus")}))
	must(t, syscall.Listen(fd, 1))
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(dir, "bus"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := DialLogind(ctx)
		done <- err
	}()
	if err := patience.Receive(t, "connecting ends with its context", done); err == nil {
		t.Error("connected")
	}
}
