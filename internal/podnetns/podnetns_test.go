package podnetns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

// namespace makes a network namespace with an active loopback interface, and returns its bind mount.
func namespace(t *testing.T) string {
	t.Helper()
	ring.RequireRoot(t)
	path := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go onThread(func() {
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
		if err == nil {
			err = activate("lo")
		}
		made <- err
	})
	if err := <-made; errors.Is(err, unix.EPERM) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return path
}

// onThread calls f on a thread that ends afterwards. It is not the main thread, which would keep its namespace.
func onThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // still locked
	}
	done := make(chan struct{})
	go func() { defer close(done); onThread(f) }()
	<-done
	runtime.UnlockOSThread()
}

func activate(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	link, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	link.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, link)
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// TestThread checks that the work happens in the namespace, on a thread other than the main one: /proc/PID/ns of the
// process shows the host's network (R9).
func TestThread(t *testing.T) {
	path := namespace(t)
	own := inode(t, "/proc/self/ns/net")
	for range 20 { // the scheduler chooses the main thread by chance
		work, err := start(path)
		if err != nil {
			t.Fatal(err)
		}
		result := make(chan uint64, 1)
		work <- func() { result <- inode(t, "/proc/thread-self/ns/net") }
		if got := <-result; got != inode(t, path) {
			t.Errorf("the work happened in the namespace %d, want %d", got, inode(t, path))
		}
		close(work)
	}
	if got := inode(t, "/proc/self/ns/net"); got != own {
		t.Errorf("the main thread is in the namespace %d, want %d", got, own)
	}
	if got := inode(t, "/proc/thread-self/ns/net"); got != own {
		t.Errorf("this goroutine is in the namespace %d, want %d", got, own)
	}
}

func TestThreadWithoutNamespace(t *testing.T) {
	if _, err := start(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

// TestConnect connects sockets of a namespace from goroutines outside of it: to a server there, to a port without a
// server, and with a context that has ended.
func TestConnect(t *testing.T) {
	work, err := start(namespace(t))
	if err != nil {
		t.Fatal(err)
	}
	defer close(work)
	var l net.Listener
	run(work, func() { l, err = net.Listen("tcp", "127.0.0.1:0") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("x"))
			c.Close()
		}
	}()
	socket := func() (fd int) {
		run(work, func() { fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0) })
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	to := netip.MustParseAddrPort(l.Addr().String())
	c, err := connect(t.Context(), socket(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read: %d, %v", n, err)
	}
	if c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(int(to.Port()))); err == nil {
		c.Close()
		t.Log("a server of the host uses the same port")
	}
	l.Close()
	if _, err := connect(t.Context(), socket(), to); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a server: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := connect(ended, socket(), to); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// run executes a function on the thread of the namespace.
func run(work chan<- func(), f func()) {
	done := make(chan struct{})
	work <- func() { f(); close(done) }
	<-done
}

// TestRoot checks that root works in its own namespace.
func TestRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user runs the test")
	}
	if Separate() {
		t.Error("root has a separate namespace")
	}
	got, err := Call(func() (uint64, error) { return inode(t, "/proc/thread-self/ns/net"), nil })
	if err != nil || got != inode(t, "/proc/self/ns/net") {
		t.Errorf("the work happened in %d (%v)", got, err)
	}
}
