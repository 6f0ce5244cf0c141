package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keeper starts a process in U and M that keeps them, as containerd does.
func (i *instance) keeper(r *record) *record {
	i.Helper()
	c := i.enter(r, "/bin/sleep", "1000")
	if err := c.Start(); err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	for { // until setpriv and podrun-enter have executed it
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.Process.Pid))
		if err != nil {
			i.Fatal(err)
		}
		if string(comm) == "sleep\n" {
			break
		}
	}
	start, err := startTime(c.Process.Pid)
	if err != nil {
		i.Fatal(err)
	}
	return &record{PID: c.Process.Pid, StartTime: start}
}

// startInside starts podrun-rootless in the namespaces of a process.
func (i *instance) startInside(of *record, env ...string) (message, string) {
	i.Helper()
	c := i.enter(of, i.bin+"/podrun-rootless", "--run-dir="+i.dir, "--bin="+i.bin, "--inside")
	c.Env = append(c.Env, env...)
	return i.try(c)
}

// send sends a request to the socket for host ports, as a user.
func (i *instance) send(user int, request string) string {
	i.Helper()
	c := as(user, "/usr/bin/python3", "-c", `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n")
s.shutdown(socket.SHUT_WR)
print(s.makefile().read(), end="")`, socketPath(i.dir), request)
	out, err := c.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// open returns the open ports, and the errors of the others.
func (i *instance) open() string {
	i.Helper()
	var reply struct {
		Ports []struct {
			Owner, Error string
			HostPort     int
		}
	}
	out := i.send(testUser, `{"op":"list"}`)
	if err := json.Unmarshal([]byte(out), &reply); err != nil {
		i.Fatalf("%v: %s", err, out)
	}
	var all []string
	for _, p := range reply.Ports {
		text := fmt.Sprintf("%s:%d", p.Owner, p.HostPort)
		if p.Error != "" {
			text += "!"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// add opens a port to the port 80 of N.
func (i *instance) add(owner string, ports ...int) string {
	i.Helper()
	var list []string
	for _, p := range ports {
		list = append(list, fmt.Sprintf(`{"protocol":"tcp","hostPort":%d,"address":"192.0.0.2","port":80}`, p))
	}
	return i.send(testUser, fmt.Sprintf(`{"op":"add","owner":%q,"ports":[%s]}`, owner, strings.Join(list, ",")))
}

// TestRestartInside kills the process while another one keeps U.
func TestRestartInside(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	keeper := i.keeper(r)
	serveTCP(t, "tcp4", hostIP4+":7000", "host ")
	i.inNode(r, func() { serveTCP(t, "tcp4", "192.0.0.2:80", "pod ") })
	i.add("a/eth0", 7100)
	i.add("b/eth0", 7101)
	if got := i.open(); got != "a/eth0:7100 b/eth0:7101" {
		t.Fatal(got)
	}
	i.killAndWait(r.PID)
	if got := exchange("tcp", "127.0.0.1:7100", 1); !strings.Contains(got, "refused") {
		t.Errorf("without the process: %s", got)
	}
	taken, err := net.Listen("tcp", ":7101")
	if err != nil {
		t.Fatal(err)
	}
	if m, errs := i.startInside(keeper); !m.Ready {
		t.Fatalf("%+v %s", m, errs)
	}
	again := i.record()
	if again.UserNamespace != r.UserNamespace || again.MountNamespace != r.MountNamespace || again.PID == r.PID {
		t.Errorf("%+v, before %+v", again, r)
	}
	if got := exchange("tcp", "127.0.0.1:7100", 5); got != "pod 5" {
		t.Errorf("host port: %s", got)
	}
	i.inNode(again, func() {
		if got := exchange("tcp", hostIP4+":7000", 5); got != "host 5" {
			t.Errorf("out of N: %s", got)
		}
	})
	if got := i.open(); got != "a/eth0:7100 b/eth0:7101!" {
		t.Error(got)
	}
	taken.Close()
	for deadline := time.Now().Add(20 * time.Second); strings.Contains(i.open(), "!"); {
		if time.Now().After(deadline) {
			t.Fatal("the port is not opened again")
		}
	}
	if got := exchange("tcp", "127.0.0.1:7101", 5); got != "pod 5" {
		t.Errorf("host port: %s", got)
	}
	// A second start inside finds the first one.
	if m, errs := i.startInside(keeper); !m.Ready || i.record().PID != again.PID {
		t.Errorf("%+v %s", m, errs)
	}
	// Without a process that keeps U, inside is impossible.
	i.killAndWait(again.PID)
	i.killAndWait(keeper.PID)
	if m, _ := i.startInside(keeper); m.Reason != "Gone" {
		t.Errorf("%+v", m)
	}
	if r := i.mustStart(); r.UserNamespace == 0 || i.open() != "" {
		t.Errorf("a new U has the ports %s", i.open())
	}
}

// TestKilledAtEachStep kills the first start, and a start inside, at each step. The next start works.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range []string{"maps/before", "maps/after", "mounts/after", "netns/before", "netns/after", "uplink/after", "ports/before", "ports/after", "record/before", "record/after"} {
		t.Run(step, func(t *testing.T) {
			i := newInstance(t)
			c := as(testUser, i.bin+"/podrun-rootless", "--run-dir="+i.dir, "--bin="+i.bin)
			c.Env = append(c.Env, killEnv+"="+step)
			if m, _ := i.try(c); m.Ready {
				t.Fatalf("%+v: not killed", m)
			}
			r := i.mustStart()
			serveTCP(t, "tcp4", hostIP4+":7000", "host ")
			i.inNode(r, func() {
				if got := exchange("tcp", hostIP4+":7000", 5); got != "host 5" {
					t.Errorf("out of N: %s", got)
				}
			})
			if n := len(processesOf(i.dir)); n != 1 {
				t.Errorf("%d processes", n)
			}
		})
	}
	for _, step := range []string{"netns/after", "uplink/after", "record/before", "record/after"} {
		t.Run("inside "+step, func(t *testing.T) {
			i := newInstance(t)
			r := i.mustStart()
			keeper := i.keeper(r)
			i.add("a/eth0", 7100)
			i.killAndWait(r.PID)
			if m, _ := i.startInside(keeper, killEnv+"="+step); m.Ready {
				t.Fatalf("%+v: not killed", m)
			}
			if m, errs := i.startInside(keeper); !m.Ready {
				t.Fatalf("%+v %s", m, errs)
			}
			if got := i.open(); got != "a/eth0:7100" {
				t.Error(got)
			}
		})
	}
	// A change of the ports is either complete or has no effect.
	for _, step := range []string{"ports/before#2", "ports/after#2"} {
		t.Run(step, func(t *testing.T) {
			i := newInstance(t)
			c := as(testUser, i.bin+"/podrun-rootless", "--run-dir="+i.dir, "--bin="+i.bin)
			c.Env = append(c.Env, killEnv+"="+step)
			if m, errs := i.try(c); !m.Ready {
				t.Fatalf("%+v %s", m, errs)
			}
			keeper := i.keeper(i.record())
			if got := i.add("a/eth0", 7100, 7101); strings.Contains(got, "7100") {
				t.Fatalf("not killed: %s", got)
			}
			if m, errs := i.startInside(keeper); !m.Ready {
				t.Fatalf("%+v %s", m, errs)
			}
			want := map[string]string{"ports/before#2": "", "ports/after#2": "a/eth0:7100 a/eth0:7101"}[step]
			if got := i.open(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestMounts checks that M receives the host's mounts, but not the reverse.
func TestMounts(t *testing.T) {
	i := newInstance(t)
	// t.TempDir may be below a directory that other users cannot enter.
	place, err := os.MkdirTemp(os.Getenv(hostEnv), "mounts-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(place, 0o755); err != nil {
		t.Fatal(err)
	}
	r := i.mustStart()
	if err := unix.Mount("tmpfs", place, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(place, unix.MNT_DETACH) //nolint:errcheck // of the test
	if err := os.WriteFile(place+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := i.enter(r, "/bin/sh", "-ec", "ls "+place+"; mount -t tmpfs tmpfs "+i.dir+"; touch "+i.dir+"/hidden; ls "+i.dir).CombinedOutput()
	if err != nil || string(out) != "file\nhidden\n" {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := os.Stat(i.dir + "/rootless.json"); err != nil {
		t.Errorf("a mount of M is on the host: %v", err)
	}
	// Containers need shared mounts.
	data, err := os.ReadFile("/proc/" + strconv.Itoa(r.PID) + "/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); fields[4] == "/" && (!strings.Contains(line, " shared:") || !strings.Contains(line, " master:")) {
			t.Errorf("the root is not shared and slave: %s", line)
		}
	}
}

// TestDirectoryRemovedByRoot checks that /var/lib/cni remains in M when root's podrun removes the directory of the host.
func TestDirectoryRemovedByRoot(t *testing.T) {
	i := newInstance(t)
	if err := unix.Mount("tmpfs", filepath.Dir(cniDir), "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(filepath.Dir(cniDir), unix.MNT_DETACH) //nolint:errcheck // of the test
	if err := os.Mkdir(cniDir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := i.mustStart()
	if err := os.Remove(cniDir); err != nil {
		t.Fatal(err)
	}
	if out, err := i.enter(r, "/bin/touch", cniDir+"/x").CombinedOutput(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

// TestSingleID starts without subordinate IDs, and with a newuidmap that fails.
func TestSingleID(t *testing.T) {
	i := newInstance(t)
	setSubordinate(t, "other:200000:65536\n")
	m := i.start()
	if !m.Ready || !m.SingleID || m.Reason != "NoSubordinateIDs" || !strings.HasPrefix(m.Hint, "/etc/subuid has no range for the user rl: ") {
		t.Errorf("%+v", m)
	}
	r := i.record()
	if want := fmt.Sprintf("0 %d 1\n", testUser); r.UIDMap != want || r.GIDMap != want || !r.SingleID || r.SingleIDReason == "" {
		t.Errorf("%+v", r)
	}
	out, err := i.enter(r, "/bin/sh", "-c", "id -u; cat /proc/self/setgroups").CombinedOutput()
	if err != nil || string(out) != "0\ndeny\n" {
		t.Errorf("%s, %v", out, err)
	}
	i.killAndWait(r.PID)

	setSubordinate(t, "rl:200000:65536\n")
	c := as(testUser, i.bin+"/podrun-rootless", "--run-dir="+i.dir, "--bin="+i.bin)
	c.Args = append([]string{c.Args[0], "--no-new-privs"}, c.Args[1:]...)
	m, _ = i.try(c)
	if m.Ready || m.Reason != "IDMapFailed" || !strings.Contains(m.Hint, "no_new_privs") {
		t.Errorf("%+v", m)
	}
	if n := len(processesOf(i.dir)); n != 0 {
		t.Errorf("%d processes", n)
	}
}

// TestNameless starts as a user without a name.
func TestNameless(t *testing.T) {
	i := newInstance(t)
	setSubordinate(t, fmt.Sprintf("%d:300000:65536\n", otherUser))
	if err := os.Chown(i.dir, otherUser, otherUser); err != nil {
		t.Fatal(err)
	}
	m, _ := i.try(as(otherUser, i.bin+"/podrun-rootless", "--run-dir="+i.dir, "--bin="+i.bin))
	if m.Reason != "IDMapFailed" || !strings.Contains(m.Hint, "/etc/passwd") {
		t.Errorf("%+v", m)
	}
}

// TestRunDir refuses run directories of other users, and with other modes.
func TestRunDir(t *testing.T) {
	i := newInstance(t)
	for name, prepare := range map[string]func() error{
		"mode":  func() error { return os.Chmod(i.dir, 0o750) },
		"owner": func() error { return os.Chown(i.dir, otherUser, otherUser) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if m := i.start(); m.Ready || !strings.Contains(m.Error, "must be a directory of the user") {
			t.Errorf("%s: %+v", name, m)
		}
		if err := errors.Join(os.Chmod(i.dir, 0o700), os.Chown(i.dir, testUser, testUser)); err != nil {
			t.Fatal(err)
		}
	}
	real := i.dir
	i.dir += ".link"
	if err := os.Symlink(real, i.dir); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(real)
	if m := i.start(); m.Ready || !strings.Contains(m.Error, "must be a directory of the user") {
		t.Errorf("symbolic link: %+v", m)
	}
}

// TestOtherUser checks that another user cannot enter U, use the socket or signal the process.
func TestOtherUser(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	// The mode of the directory must not be the only protection.
	if err := os.Chmod(i.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c := as(otherUser, i.bin+"/podrun-enter", strconv.Itoa(r.PID), strconv.FormatUint(r.StartTime, 10), "--", "/bin/true")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "podrun-enter: open the user namespace of /proc/") {
		t.Errorf("enter: %s, %v", out, err)
	}
	if got := i.send(otherUser, `{"op":"list"}`); !strings.Contains(got, "PermissionError") {
		t.Errorf("socket: %s", got)
	}
	if err := os.Chmod(socketPath(i.dir), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := i.send(otherUser, `{"op":"list"}`); !strings.Contains(got, "must not change host ports") {
		t.Errorf("socket with mode 666: %s", got)
	}
	out, err = as(otherUser, "/bin/cat", fmt.Sprintf("/proc/%d/environ", r.PID)).CombinedOutput()
	if err == nil {
		t.Errorf("environment: %s", out)
	}
	if err := as(otherUser, "/bin/kill", strconv.Itoa(r.PID)).Run(); err == nil || !r.alive() {
		t.Errorf("kill: %v", err)
	}
}

// TestSameUserInContainer checks that a process with the IDs of the user, but without its capabilities,
// such as one of a container with hostPID, cannot trace the process.
func TestSameUserInContainer(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	caps := "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap"
	c := i.enter(r, "/usr/bin/setpriv", "--bounding-set", caps, "--inh-caps=-all", "/bin/sh", "-c", fmt.Sprintf("id -u; cat /proc/%d/environ; head -c 1 /proc/%[1]d/mem; readlink /proc/%[1]d/fd/2; readlink /proc/%[1]d/ns/user", r.PID))
	out, err := c.CombinedOutput()
	if err == nil || strings.Count(string(out), "ermission denied") != 2 || strings.Count(string(out), "\n") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}
