package critest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest/ash"
)

// say runs a script in a container and returns its output.
func (s *suite) say(t *testing.T, id, script string) string {
	t.Helper()
	resp, err := s.ExecSync(t.Context(), id, []string{"sh", "-c", script}, 0)
	if err != nil {
		t.Fatalf("ExecSync %s: %v", script, err)
	}
	if resp.GetExitCode() != 0 {
		t.Errorf("%s: exit code %d: %s", script, resp.GetExitCode(), resp.GetStderr())
	}
	return string(resp.GetStdout())
}

// testSurroundings checks the environment of a program: its variables, host name and DNS.
func (s *suite) testSurroundings(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "sleep", "1000")
	config.Envs = []*runtimeapi.KeyValue{{Key: "B", Value: []byte("2")}, {Key: "A", Value: []byte("x=y z")}}
	config.WorkingDir = "/tmp"
	config.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{Value: 1234}
	id := p.start(t, config)
	for script, want := range map[string]string{
		"hostname":             "pod-name\n",
		"cat /etc/hostname":    "pod-name\n",
		"cat /etc/resolv.conf": "search a.example b.example\nnameserver 192.0.2.53\noptions ndots:5\n",
		"echo $HOSTNAME $B $A": "pod-name 2 x=y z\n",
		"pwd; id -u":           "/tmp\n1234\n",
	} {
		if got := s.say(t, id, script); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	config.Metadata.Name, config.Command = "env", []string{"sh", "-c", "env; echo end"}
	var names []string
	const end = "stdout F end"
	complete := func(entries []string) bool { return slices.Contains(entries, end) }
	for _, e := range s.awaitLog(t, s.ended(t, p.start(t, config)).GetLogPath(), complete) {
		if e == end {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e, "stdout F "), "=")
		// The shell itself sets these variables.
		if name != "SHLVL" && name != "PWD" && name != "HOME" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	want := []string{"A", "B", "HOSTNAME", "PATH"}
	if s.cfg.Profile.SetsTERM {
		want = append(want, "TERM")
	}
	if !slices.Equal(names, want) {
		t.Errorf("the environment has %q, want %q", names, want)
	}
}

func (s *suite) testVolumes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("before\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := s.pod(t)
	writer := p.container("writer", "sleep", "1000")
	writer.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: dir}}
	reader := p.container("reader", "sleep", "1000")
	reader.Mounts = []*runtimeapi.Mount{{ContainerPath: "/ro", HostPath: dir, Readonly: true}, {ContainerPath: "/one", HostPath: file}}
	w, r := p.start(t, writer), p.start(t, reader)
	if got := s.say(t, w, "cat /data/file; echo after >> /data/file; echo new > /data/new; echo own > /own"); got != "before\n" {
		t.Errorf("the writer read %q", got)
	}
	if got := s.say(t, r, "cat /ro/new /one; ls /ro; test ! -e /own"); got != "new\nbefore\nafter\nfile\nnew\n" {
		t.Errorf("the reader read %q", got)
	}
	resp, err := s.ExecSync(t.Context(), r, []string{"sh", "-c", "echo x > /ro/new"}, 0)
	if err != nil || resp.GetExitCode() != 1 || !strings.Contains(string(resp.GetStderr()), "Read-only file system") {
		t.Errorf("writing to a read-only mount: %v, %v", resp, err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "before\nafter\n" {
		t.Errorf("the file on the host contains %q, %v", data, err)
	}
}

func (s *suite) testExec(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	resp, err := s.ExecSync(t.Context(), id, []string{"sh", "-c", "echo out; echo err >&2; exit 7"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if string(resp.GetStdout()) != "out\n" || string(resp.GetStderr()) != "err\n" || resp.GetExitCode() != 7 {
		t.Errorf("got %v", resp)
	}
}

func (s *suite) testExecTimeout(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	begin := time.Now()
	resp, err := s.ExecSync(t.Context(), id, []string{"sleep", "600"}, time.Second)
	if s.cfg.Profile.ExecExpires && (err != nil || resp.GetExitCode() != -1) {
		t.Errorf("got %v, %v; want exit code -1", resp, err)
	}
	if !s.cfg.Profile.ExecExpires {
		wantCode(t, err, codes.DeadlineExceeded)
	}
	if took := time.Since(begin); took < time.Second || took > time.Minute {
		t.Errorf("the call took %v", took)
	}
	wantState(t, s.status(t, id), runtimeapi.ContainerState_CONTAINER_RUNNING)
}

func (s *suite) testExecRefused(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	_, err := s.ExecSync(t.Context(), id, []string{"no-such-program"}, 0)
	wantCode(t, err, codes.Unknown)
	if why, absent, ok := cri.CommandFailure(err); !ok || !absent || why != `exec: "no-such-program": executable file not found in $PATH` {
		t.Errorf("got the reason %q from the error %v", why, err)
	}
	if err := s.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	_, err = s.ExecSync(t.Context(), id, []string{"true"}, 0)
	if !cri.NotRunning(err) {
		t.Errorf("got %v", err)
	}
	if err := s.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err = s.ExecSync(t.Context(), id, []string{"true"}, 0)
	wantCode(t, err, codes.NotFound)
}

// testShell compares the fake runtime's shell to busybox's: the same scripts must have the same
// results.
func (s *suite) testShell(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "sleep", "1000")
	for _, e := range ash.ScriptEnv {
		k, v, _ := strings.Cut(e, "=")
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: k, Value: []byte(v)})
	}
	dir := t.TempDir()
	config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/ro", HostPath: dir, Readonly: true}}
	id := p.start(t, config)
	for name, text := range ash.ScriptFiles {
		s.say(t, id, fmt.Sprintf("printf '%%s' '%s' > %s", text, name))
	}
	for _, c := range ash.Scripts {
		resp, err := s.ExecSync(t.Context(), id, []string{"sh", "-c", c.Text}, 0)
		if err != nil {
			t.Fatalf("%s: %v", c.Text, err)
		}
		code, stdout, stderr := int(resp.GetExitCode()), string(resp.GetStdout()), string(resp.GetStderr())
		if code != c.Code || stdout != c.Stdout || (stderr == "") != (c.Stderr == "") {
			t.Errorf("%s\ngot code %d, stdout %q, stderr %q\nwant %d, %q, %q", c.Text, code, stdout, stderr, c.Code, c.Stdout, c.Stderr)
		}
	}
}
