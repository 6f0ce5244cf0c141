package nodeapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clientEnv is an environment variable with the path of a socket. If it is set, the test binary
// connects to the socket as a client; see TestMain.
const clientEnv = "PODRUN_TEST_CLIENT"

func TestMain(m *testing.M) {
	if socket := os.Getenv(clientEnv); socket != "" {
		passOn(socket)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const execRequest = "POST /exec/default/web/app?command=id&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"

// passOn connects to the socket, and passes the connection to a child process, which then requests
// exec.
func passOn(socket string) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		panic(err)
	}
	f, err := c.(*net.UnixConn).File()
	if err != nil {
		panic(err)
	}
	child := exec.Command("sh", "-c", "printf '"+strings.ReplaceAll(execRequest, "\r\n", `\r\n`)+"' >&3; cat <&3")
	child.ExtraFiles, child.Stdout = []*os.File{f}, os.Stdout
	if err := child.Start(); err != nil {
		panic(err)
	}
}

// streaming returns a backend whose runtime accepts every exec request.
func streaming(t *testing.T) Backend {
	accepts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "accepted by the runtime") }))
	t.Cleanup(accepts.Close)
	b := testBackend(1)
	b.Exec = func(context.Context, StreamRequest) (string, error) { return accepts.URL, nil }
	b.Attach, b.PortForward = b.Exec, b.Exec
	return b
}

// testGroup creates a cgroup. It returns the file to which a process writes its ID to join the
// cgroup.
func testGroup(t *testing.T, name string) string {
	t.Helper()
	var errs []error
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			errs = append(errs, err)
			continue
		}
		top := filepath.Join(root, fmt.Sprintf("podrun-nodeapi-%d", os.Getpid()))
		dir := filepath.Join(top, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		t.Cleanup(func() {
			for ; dir != root; dir = filepath.Dir(dir) {
				os.Remove(dir)
			}
		})
		return filepath.Join(dir, "cgroup.procs")
	}
	t.Skipf("needs root and a cgroup file system: %v", errs)
	return ""
}

// TestContainerGetsIntoNoOther covers a process in a container that can connect to the socket,
// for example through a read-only hostPath. The process may read, but must not run commands.
func TestContainerGetsIntoNoOther(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		// the cgroup of the client; "" for the cgroup of the test
		group string
		want  string
	}{
		"host":                {"", "accepted by the runtime"},
		"service":             {"system.slice/agent.service", "accepted by the runtime"},
		"pod":                 {"kubepods/burstable/pod1-2/" + id, "403 Forbidden"},
		"pod without a group": {"k8s.io/" + id, "403 Forbidden"},
		"systemd's names":     {"kubepods.slice/kubepods-pod1_2.slice/cri-containerd-" + id + ".scope", "403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			join := ""
			if test.group != "" {
				join = "echo $$ > " + testGroup(t, test.group) + " && "
			}
			_, _, path := serveSocket(t, streaming(t))
			for _, request := range []string{"/exec/default/web/app?command=id&output=1", "/attach/default/web/app?output=1", "/portForward/default/web"} {
				out, err := exec.CommandContext(t.Context(), "sh", "-c", join+`exec curl -sS --max-time 20 -i -X POST -H 'Connection: Upgrade' -H 'Upgrade: SPDY/3.1' --unix-socket "$0" "$1"`, path, "http://x"+request).CombinedOutput()
				if err != nil || !strings.Contains(string(out), test.want) {
					t.Errorf("%s: %v, want %q\n%s", request, err, test.want, out)
				}
			}
			out, err := exec.CommandContext(t.Context(), "sh", "-c", join+`exec curl -sS --max-time 20 --unix-socket "$0" http://x/healthz`, path).CombinedOutput()
			if err != nil || string(out) != "ok" {
				t.Errorf("healthz: %v %s", err, out)
			}
		})
	}
}

// TestConnectionPassedOn covers a process that has connected and then exited: another process may
// be using its connection, so podrun must refuse the connection.
func TestConnectionPassedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := ListenUnix(Socket{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := exec.Command(self)
	client.Env = append(os.Environ(), clientEnv+"="+path)
	stdout, err := client.StdoutPipe()
	if err == nil {
		err = client.Start()
	}
	if err == nil {
		// The client exits before the server accepts the connection.
		_, err = client.Process.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(streaming(t))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() { s.Close(); <-done }()
	line := make([]byte, len("HTTP/1.1 403"))
	if _, err := io.ReadFull(stdout, line); err != nil || string(line) != "HTTP/1.1 403" {
		t.Errorf("answer %q %v", line, err)
	}
}

func TestContainerGroup(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		group, own string
		container  bool
	}{
		{"/", "/", false},
		{"/user.slice/user-0.slice/session-3.scope", "/system.slice/podrun.service", false},
		{"/system.slice/podrun.service", "/system.slice/podrun.service", false},
		{"/kubepods", "/", false},
		{"/kubepods/pod1", "/", true},
		{"/kubepods/pod1/abc", "/", true},
		{"/edge/kubepods/besteffort/pod1/abc", "/", true},
		{"/system.slice/docker-" + id + ".scope", "/", true},
		{"/docker/" + id, "/docker/" + id, false},
		{"/docker/" + id + "/kubepods/pod1/abc", "/docker/" + id, true},
		{"/docker/" + id + "0", "/docker/" + id, true},
	} {
		got := containerGroup(map[string]string{"1": "/", "4": test.group}, map[string]string{"1": "/", "4": test.own})
		if (got != "") != test.container {
			t.Errorf("%s of podrun in %s: %q", test.group, test.own, got)
		}
	}
}
