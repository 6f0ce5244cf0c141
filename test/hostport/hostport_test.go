package hostport

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// start is a variable with the port with which another process begins.
const start = "PODRUN_TEST_PORT"

func TestMain(m *testing.M) {
	if port, err := strconv.Atoi(os.Getenv(start)); err == nil {
		reserved.next = port
		port, err = Reserve()
		fmt.Print(port, err)
		return
	}
	os.Exit(m.Run())
}

// TestReserve checks that another process does not get a port that this process has reserved, and that a
// port on which a process listens is not free.
func TestReserve(t *testing.T) {
	port, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	reserved.next = port
	if next, err := Reserve(); err != nil || next == port {
		t.Errorf("%d is reserved twice; error %v", next, err)
	}
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if free(listener.Addr().(*net.TCPAddr).Port) {
		t.Error("a port on which this process listens is free")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), start+"="+strconv.Itoa(port))
	out, err := c.Output()
	other, isNumber := strings.CutSuffix(string(out), "<nil>")
	if number, e := strconv.Atoi(strings.TrimSpace(other)); err != nil || e != nil || !isNumber || number == port {
		t.Errorf("another process has reserved %q; port %d is reserved; error %v", out, port, err)
	}
}
