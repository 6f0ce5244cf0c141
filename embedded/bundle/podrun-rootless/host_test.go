package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The tests run in namespaces of their own: TestMain executes the binary again in a new network
// namespace, which is the host's, and in a new mount namespace, which has the test's /etc/subuid.
const (
	hostEnv   = "PODRUN_ROOTLESS_TEST_HOST"
	killEnv   = "PODRUN_ROOTLESS_TEST_KILL"
	testUser  = 61001
	otherUser = 61002
	hostIP4   = "10.99.0.1"
	hostIP6   = "fd99::1"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "--run-dir"):
		seen := map[string]int{}
		fault = func(step string) {
			seen[step]++
			if kill := os.Getenv(killEnv); kill == fmt.Sprintf("%s#%d", step, seen[step]) || kill == step && seen[step] == 1 {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		}
		main()
		os.Exit(0)
	case os.Getenv(filteredEnv) != "":
		// TestFilter has executed this process in the namespaces.
	case os.Geteuid() == 0 && os.Getenv(hostEnv) == "":
		os.Exit(runInside())
	case os.Geteuid() == 0:
		if err := becomeHost(os.Getenv(hostEnv)); err != nil {
			fmt.Fprintln(os.Stderr, "prepare the namespaces of the tests:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runInside executes the tests in new namespaces.
func runInside() int {
	// Not TMPDIR: the path of a socket is short, and other users must be able to enter the directory.
	dir, err := os.MkdirTemp("/tmp", "podrun-rl-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// The program is this binary, so that it can be killed at each step, but without cgo: with it, a
	// process cannot drop the capabilities of all its threads.
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, "bin", "podrun-rootless"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build podrun-rootless: %v\n%s", err, out)
		return 1
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), hostEnv+"="+dir)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	err = c.Run()
	for _, pid := range processesOf(dir) { // after a panic, cleanups have not run
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if err != nil {
		if c.ProcessState == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	return 0
}

// processesOf returns the processes of podrun-rootless whose run directories are below a directory.
func processesOf(dir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		line, e := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && e == nil && strings.Contains(string(line), "--run-dir="+dir) {
			out = append(out, pid)
		}
	}
	return out
}

func becomeHost(dir string) error {
	// Go has made the mounts private; M must receive later mounts, as on a host with systemd.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return err
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	files := map[string]string{
		"passwd": string(passwd) + fmt.Sprintf("rl:x:%d:%d::/nonexistent:/bin/sh\n", testUser, testUser),
		"subuid": "", "subgid": "", "resolv.conf": "nameserver 127.0.0.53\n",
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(path, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/etc/%s: %w", name, err)
		}
	}
	return hostNetwork()
}

func hostNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "lan0"
	lan := &netlink.Bridge{LinkAttrs: attributes} // without ports; some kernels have no dummy interfaces
	if err := netlink.LinkAdd(lan); err != nil {
		return err
	}
	for _, a := range []string{hostIP4 + "/24", hostIP6 + "/64"} {
		if err := addAddress(a); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(lan)
}

// addAddress adds an address to the host.
func addAddress(prefix string) error {
	lan, err := netlink.LinkByName("lan0")
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(prefix)
	if err != nil {
		return err
	}
	address.Flags = unix.IFA_F_NODAD
	return netlink.AddrAdd(lan, address)
}

func writeSysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+name, []byte(value), 0)
}

// setSubordinate writes the content of /etc/subuid and /etc/subgid.
func setSubordinate(t *testing.T, content string) {
	t.Helper()
	for _, name := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// instance is a run directory with a podrun-rootless.
type instance struct {
	*testing.T
	dir string // the run directory
	bin string
}

func newInstance(t *testing.T) *instance {
	t.Helper()
	if os.Getenv(hostEnv) == "" {
		t.Skip("not root: creates users' namespaces")
	}
	for _, name := range []string{"newuidmap", "newgidmap", "setpriv", "gcc"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed")
		}
	}
	setSubordinate(t, "rl:200000:65536\n")
	dir, err := os.MkdirTemp(os.Getenv(hostEnv), "run-")
	if err == nil {
		err = errors.Join(os.Chown(dir, testUser, testUser), os.Chmod(dir, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{T: t, dir: dir, bin: filepath.Join(os.Getenv(hostEnv), "bin")}
	t.Cleanup(i.end)
	i.buildEnter()
	return i
}

func (i *instance) buildEnter() {
	path := filepath.Join(i.bin, "podrun-enter")
	if _, err := os.Stat(path); err == nil {
		return
	}
	flags := strings.Fields("-std=c11 -Wall -Wextra -Werror -Os -static -nostdlib -ffreestanding -fno-pie -no-pie -fno-stack-protector -o")
	if out, err := exec.Command("gcc", append(flags, path, "../enter/enter.c")...).CombinedOutput(); err != nil {
		i.Fatalf("gcc: %v\n%s", err, out)
	}
}

// end ends all processes of the instance, and waits for them.
func (i *instance) end() {
	if r, err := readRecord(i.dir); err == nil && r.alive() {
		i.killAndWait(r.PID)
	}
	_ = os.RemoveAll(i.dir)
}

func (i *instance) killAndWait(pid int) {
	i.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		i.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		i.Fatal(err)
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// as returns a command of a user, without capabilities.
func as(user int, args ...string) *exec.Cmd {
	id := strconv.Itoa(user)
	c := exec.Command("setpriv", append([]string{"--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all", "--"}, args...)...)
	c.Env, c.Dir = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
	return c
}

// start executes podrun-rootless, and returns its line.
func (i *instance) start(args ...string) message {
	i.Helper()
	m, errs := i.try(as(testUser, append([]string{i.bin + "/podrun-rootless", "--run-dir=" + i.dir, "--bin=" + i.bin}, args...)...))
	if m.Error == "" && !m.Ready {
		i.Fatalf("no line; stderr: %s", errs)
	}
	return m
}

// try executes a command with a pipe as descriptor 3, and returns the line that it receives.
func (i *instance) try(c *exec.Cmd) (message, string) {
	i.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		i.Fatal(err)
	}
	defer r.Close()
	var errs bytes.Buffer
	stderr, err := os.CreateTemp(i.TempDir(), "")
	if err != nil {
		i.Fatal(err)
	}
	defer stderr.Close()
	c.ExtraFiles, c.Stderr = []*os.File{w}, stderr // a file: Wait must not wait for the child's end
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		i.Fatal(err)
	}
	_ = w.Close()
	line, _ := bufio.NewReader(r).ReadBytes('\n')
	var m message
	if len(line) > 0 {
		if err := json.Unmarshal(line, &m); err != nil {
			i.Fatalf("%q: %v", line, err)
		}
	}
	if !slices.Contains(c.Args, "--inside") { // otherwise the command is the process
		_ = c.Wait()
	} else {
		go c.Wait() //nolint:errcheck // it is killed
	}
	text, _ := os.ReadFile(stderr.Name())
	errs.Write(text)
	return m, errs.String()
}

// mustStart starts podrun-rootless, and returns its record.
func (i *instance) mustStart(args ...string) *record {
	i.Helper()
	if m := i.start(args...); !m.Ready {
		i.Fatalf("%+v", m)
	}
	return i.record()
}

func (i *instance) record() *record {
	i.Helper()
	r, err := readRecord(i.dir)
	if err != nil {
		i.Fatal(err)
	}
	return r
}

// enter returns a command in U and M.
func (i *instance) enter(r *record, args ...string) *exec.Cmd {
	return as(testUser, append([]string{i.bin + "/podrun-enter", strconv.Itoa(r.PID), strconv.FormatUint(r.StartTime, 10), "--"}, args...)...)
}

// in calls f on a thread in the network namespace at a path in M.
func (i *instance) in(r *record, path string, f func()) {
	i.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		ns, err := os.Open(fmt.Sprintf("/proc/%d/root%s", r.PID, path))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		defer func() { done <- err }() // even if f ends the test
		if err == nil {
			f()
		}
	}()
	if err := <-done; err != nil {
		i.Fatal(err)
	}
	if i.Failed() {
		i.FailNow()
	}
}

// inNode calls f on a thread in N.
func (i *instance) inNode(r *record, f func()) {
	i.Helper()
	i.in(r, r.Netns, f)
}

// dialer connects on the calling thread: net tries several addresses on other threads only for names.
var dialer = net.Dialer{Timeout: 10_000_000_000}
