package imagepull

import (
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// What came on a connection that a process opened is seen, byte by byte; what came on
// one that it accepted is not.
func TestWireQuiet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// Another process is the client, so that the accepted connection is this one's alone.
	c := exec.Command("sh", "-c", `exec 3<>/dev/tcp/127.0.0.1/$0 || exit 9; read line <&3; echo "$line"; read line <&3`, port(t, l))
	c.Path, c.Args[0] = bash(t), "bash"
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	time.Sleep(2 * time.Second) // more than the rest takes on a busy host; the kernel's clock of the connection cannot be a fake one
	before, seen, err := wireQuiet(c.Process.Pid)
	if err != nil || !seen || before < 1900*time.Millisecond {
		t.Errorf("a connection that is quiet since it was opened: %v %v %v", before, seen, err)
	}
	if _, err := conn.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	after, seen, err := wireQuiet(c.Process.Pid)
	if err != nil || !seen || after >= before {
		t.Errorf("after two bytes: %v %v %v, before %v", after, seen, err, before)
	}
	if quiet, seen, err := wireQuiet(os.Getpid()); err != nil || seen {
		t.Errorf("the accepted connection counts: %v %v", quiet, err)
	}
	if _, _, err := wireQuiet(1 << 30); err == nil {
		t.Error("a process that does not exist has connections")
	}
}

func port(t *testing.T, l net.Listener) string {
	t.Helper()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func bash(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	return path
}

func TestQuietest(t *testing.T) {
	own := map[uint32]bool{1: true, 2: true, 3: true, 4: true}
	listener, accepted := connection{inode: 1, port: 80, listen: true}, connection{inode: 2, port: 80, quiet: time.Second}
	slow, fast := connection{inode: 3, port: 4000, quiet: time.Minute}, connection{inode: 4, port: 4001, quiet: time.Second}
	foreign := connection{inode: 9, port: 4002}
	for name, test := range map[string]struct {
		all   []connection
		quiet time.Duration
		seen  bool
	}{
		"none":            {nil, 0, false},
		"another process": {[]connection{foreign, listener, accepted}, 0, false},
		"one":             {[]connection{listener, accepted, slow, foreign}, time.Minute, true},
		"two":             {[]connection{fast, slow}, time.Second, true},
	} {
		if quiet, seen := quietest(test.all, own); quiet != test.quiet || seen != test.seen {
			t.Errorf("%s: %v %v, want %v %v", name, quiet, seen, test.quiet, test.seen)
		}
	}
}
