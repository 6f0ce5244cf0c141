package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podrun/podrun/test/patience"
)

func TestStatusMessage(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"12 pods", "STATUS=12 pods"},
		{"a\nREADY=1\r\x1b[2Jb\u0085c", "STATUS=a READY=1  [2Jb c"},
		{"\xff", "STATUS=\ufffd"},
		{" \n", "STATUS="},
		{"pöds", "STATUS=pöds"},
	} {
		if got := statusMessage(tc.text); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
		}
	}
	for n := range 4 {
		got := strings.TrimPrefix(statusMessage(strings.Repeat("x", n)+strings.Repeat("ü", 1000)), "STATUS=")
		if len(got) > maxStatus || len(got) < maxStatus-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("a long status: %d bytes: %q", len(got), got)
		}
	}
}

func TestWatchdogInterval(t *testing.T) {
	for _, tc := range []struct {
		usec, pid string
		want      time.Duration
		on        bool
	}{
		{"", "", 0, false},
		{"60000000", "", time.Minute, true},
		{"60000000", "42", time.Minute, true},
		{"60000000", "43", 0, false},
		{"0", "", 0, false},
		{"-1", "", 0, false},
		{"many", "", 0, false},
		{"18446744073709551615", "", 0, false},
		{"18446744073709551616", "", 0, false},
		{"1", "1x", 0, false},
	} {
		env := map[string]string{"WATCHDOG_USEC": tc.usec, "WATCHDOG_PID": tc.pid}
		got, on := WatchdogInterval(func(name string) string { return env[name] }, 42)
		if got != tc.want || on != tc.on {
			t.Errorf("%q, %q: %s, %t; want %s, %t", tc.usec, tc.pid, got, on, tc.want, tc.on)
		}
	}
}

// TestNotifier sends every message to a socket with a path and to an abstract socket.
func TestNotifier(t *testing.T) {
	for _, socket := range []string{filepath.Join(t.TempDir(), "notify"), "@podrun-test-" + strconv.Itoa(os.Getpid())} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		n, err := NewNotifier(socket)
		if err != nil || !n.Enabled() {
			t.Fatalf("%s: %v", socket, err)
		}
		for _, tc := range []struct {
			send func() error
			want string
		}{
			{n.Ready, "READY=1"},
			{func() error { return n.Status("3 pods\nSTOPPING=1") }, "STATUS=3 pods STOPPING=1"},
			{n.Reloading, "RELOADING=1\nMONOTONIC_USEC="},
			{n.Stopping, "STOPPING=1"},
			{n.Watchdog, "WATCHDOG=1"},
		} {
			if err := tc.send(); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 1024)
			patience.Deadline(t, conn, patience.OnFake)
			size, err := conn.Read(buf)
			got := string(buf[:size])
			usec, reloading := strings.CutPrefix(got, "RELOADING=1\nMONOTONIC_USEC=")
			if now, perr := strconv.ParseInt(usec, 10, 64); reloading && (perr != nil || now <= 0) {
				t.Errorf("%s: %q has no time", socket, got)
			}
			if err != nil || got != tc.want && !reloading {
				t.Errorf("%s: got %q, %v; want %q", socket, got, err, tc.want)
			}
		}
	}
}

func TestNotifierWithoutSocket(t *testing.T) {
	none, err := NewNotifier("")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*Notifier{nil, none} {
		for _, send := range []func() error{n.Ready, n.Reloading, n.Stopping, n.Watchdog} {
			if err := send(); err != nil || n.Enabled() {
				t.Errorf("without a socket: %v", err)
			}
		}
	}
	for _, socket := range []string{"notify", "/", "@", "vsock:2:1234", "/" + strings.Repeat("a", 107)} {
		if _, err := NewNotifier(socket); err == nil {
			t.Errorf("%q: no error", socket)
		}
	}
	gone, err := NewNotifier(filepath.Join(t.TempDir(), "gone"))
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Ready(); err == nil || !strings.HasPrefix(err.Error(), "notify systemd: ") {
		t.Errorf("a socket that does not exist: %v", err)
	}
}

// TestNotifierSocketLength checks the limit of an address, which is 108 bytes. A path requires
// one of them for a NUL; the name of an abstract socket requires none (unix(7)).
func TestNotifierSocketLength(t *testing.T) {
	dir := t.TempDir()
	for _, longest := range []string{
		filepath.Join(dir, strings.Repeat("x", 107-len(dir)-1)),
		fmt.Sprintf("@podrun-test-%095d", os.Getpid()),
	} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: longest, Net: "unixgram"})
		if err != nil {
			t.Fatalf("%d bytes: %v", len(longest), err)
		}
		defer conn.Close()
		n, err := NewNotifier(longest)
		if err == nil {
			err = n.Ready()
		}
		if err != nil {
			t.Errorf("%d bytes: %v", len(longest), err)
			continue
		}
		patience.Deadline(t, conn, patience.OnFake)
		message := make([]byte, 100)
		if size, err := conn.Read(message); err != nil || string(message[:size]) != "READY=1" {
			t.Errorf("%d bytes: %q %v", len(longest), message[:size], err)
		}
		if l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: longest + "x", Net: "unixgram"}); err == nil {
			l.Close()
			t.Errorf("the kernel accepts %d bytes", len(longest)+1)
		}
		if _, err := NewNotifier(longest + "x"); err == nil {
			t.Errorf("%d bytes: no error", len(longest)+1)
		}
	}
}

// TestNotifierWithFullQueue checks that sending a message does not block forever if no process
// reads the socket.
func TestNotifierWithFullQueue(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n, err := NewNotifier(socket)
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		if err = n.Watchdog(); err != nil {
			break
		}
	}
	if nerr, ok := err.(interface{ Unwrap() error }); !ok || !os.IsTimeout(nerr.Unwrap()) {
		t.Errorf("want a timeout, got %v", err)
	}
}
