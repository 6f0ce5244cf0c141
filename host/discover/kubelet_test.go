package discover

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/test/inherited"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

func TestMain(m *testing.M) {
	inherited.Reset()
	os.Exit(m.Run())
}

// startKubelet runs a process named kubelet until the test ends, and returns its PID. The
// program is a script, so that the process gets this name and accepts any arguments.
func startKubelet(t *testing.T, attr *syscall.SysProcAttr, args ...string) int {
	t.Helper()
	ring.RequireRoot(t)
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "kubelet")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho up\nread end\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script, args...)
	// Use a new cgroup namespace. Otherwise podrun in another test would find a kubelet with the
	// same view of the cgroups.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWCGROUP}
	if attr != nil {
		attr.Unshareflags |= syscall.CLONE_NEWCGROUP
		cmd.SysProcAttr = attr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if up := make([]byte, 3); mustRead(t, out, up) != "up\n" {
		t.Fatalf("the process printed %q", up)
	}
	return cmd.Process.Pid
}

func mustRead(t *testing.T, from interface{ Read([]byte) (int, error) }, data []byte) string {
	t.Helper()
	n, err := from.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(data[:n])
}

// D1: a process with the name kubelet could determine which files root reads, and whether
// podrun admits a pod. So podrun must verify that the process is a kubelet, and no path that
// the process names may block podrun.
func TestKubeletProvesWhatItIs(t *testing.T) {
	dir := t.TempDir()
	fifo, link, big, good := filepath.Join(dir, "fifo"), filepath.Join(dir, "zero"), filepath.Join(dir, "big"), filepath.Join(dir, "good")
	for _, err := range []error{
		unix.Mkfifo(fifo, 0o666), os.Symlink("/dev/zero", link),
		os.WriteFile(big, append([]byte("cgroupRoot: /big\n#"), bytes.Repeat([]byte("x"), 2<<20)...), 0o644),
		os.WriteFile(good, []byte("cgroupRoot: /good\ncontainerRuntimeEndpoint: unix:///run/good.sock\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	nobody := func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	}
	for _, tc := range []struct {
		name string
		attr *syscall.SysProcAttr
		args []string
		want *host.KubeletProcess
	}{
		{"of an unprivileged user, with a FIFO", nobody(), []string{"--config=" + fifo}, nil},
		{"of an unprivileged user", nobody(), nil, nil},
		{"in its own mount namespace, with a FIFO", &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, []string{"--config=" + fifo}, nil},
		{"in its own PID namespace", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, nil, nil},
		{"root's, with a FIFO", nil, []string{"--config=" + fifo}, &host.KubeletProcess{Endpoint: kubeletEndpoint, CgroupRoot: "/"}},
		{"root's, with a link to /dev/zero", nil, []string{"--config=" + link}, &host.KubeletProcess{Endpoint: kubeletEndpoint, CgroupRoot: "/"}},
		{"root's, with /proc/self/environ of a magic link", nil, []string{"--config=/proc/self/fd/0"}, &host.KubeletProcess{Endpoint: kubeletEndpoint, CgroupRoot: "/"}},
		{"root's, with 2 MiB", nil, []string{"--config=" + big}, &host.KubeletProcess{Endpoint: kubeletEndpoint, CgroupRoot: "/"}},
		{"root's", nil, []string{"--config", good}, &host.KubeletProcess{Endpoint: "unix:///run/good.sock", CgroupRoot: "/good"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pid := startKubelet(t, tc.attr, tc.args...)
			if tc.want != nil {
				tc.want.PID = pid
			}
			ctx, cancel := patience.Context(t.Context(), patience.OnFake)
			defer cancel()
			done := make(chan struct{})
			var facts host.Facts
			var err error
			go func() {
				defer close(done)
				if facts, err = Read(ctx, nil, nodeconfig.Default(), Options{Kubelet: true}); err == nil {
					// On a host without a real kubelet, Read does not search.
					facts.Kubelet, err = kubeletSearch{machine{ctx: ctx, root: "/"}}.searchKubelet("")
				}
			}()
			select {
			case <-done:
			case <-ctx.Done():
				if w, werr := os.OpenFile(fifo, os.O_RDWR|unix.O_NONBLOCK, 0); werr == nil {
					// This unblocks a process that waits for a writer.
					w.Close()
				}
				t.Fatal("the facts were not read: ", context.Cause(ctx))
			}
			if err != nil {
				t.Fatal(err)
			}
			// This kubelet shares neither the runtime nor the cgroups with podrun. Another test may have started a
			// kubelet that does.
			if facts.Kubelet != nil && facts.Kubelet.PID == pid {
				t.Errorf("it counts as a kubelet that may affect podrun's pods: %+v", facts.Kubelet)
			}
			m := machine{ctx: ctx, root: "/"}
			name := strconv.Itoa(pid)
			trusted := kubeletSearch{m}.runsAsRoot(name) && kubeletSearch{m}.sameNamespace(name, "pid") && kubeletSearch{m}.sameNamespace(name, "mnt")
			if trusted != (tc.want != nil) {
				t.Fatalf("the process is trusted: %v", trusted)
			}
			if !trusted {
				return
			}
			if diff := cmp.Diff(tc.want, (kubeletSearch{m}).describeKubelet(pid, "")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A kubelet in a container (kind) must not affect podrun, unless it uses the same socket
// (Talos).
func TestFindKubelet(t *testing.T) {
	dir := t.TempDir()
	ours, other := listenUnix(t, filepath.Join(dir, "ours.sock")), listenUnix(t, filepath.Join(dir, "other.sock"))
	own := map[string]string{
		"proc/self/ns/cgroup": "->cgroup:[1]", "proc/self/ns/pid": "->pid:[1]", "proc/self/ns/mnt": "->mnt:[1]", "proc/1/comm": "init\n",
		"proc/7/comm": "kubelet\n", "proc/7/status": "Name:\tkubelet\nUid:\t0\t0\t0\t0\n", "proc/7/exe": "", "proc/7/cmdline": "kubelet\x00",
		"proc/7/ns/cgroup": "->cgroup:[1]", "proc/7/ns/pid": "->pid:[1]", "proc/7/ns/mnt": "->mnt:[1]", "proc/7/root/etc/hosts": "",
	}
	elsewhere := map[string]string{"proc/7/ns/mnt": "->mnt:[2]"}
	arguments := func(endpoint string) map[string]string {
		return map[string]string{"proc/7/cmdline": "kubelet\x00--container-runtime-endpoint\x00unix://" + endpoint + "\x00"}
	}
	linked := map[string]string{"proc/7/root/run/k.sock": "->" + ours}
	for _, tc := range []struct {
		name  string
		files []map[string]string
		// a file that is mounted at /run/k.sock in the kubelet's root
		bind string
		want *host.KubeletProcess
	}{
		{"on the host", []map[string]string{{
			"proc/7/cmdline":             "/usr/bin/kubelet\x00--config=/var/lib/k.yaml\x00--container-runtime-endpoint\x00unix:///run/other.sock\x00",
			"proc/7/root/var/lib/k.yaml": "kind: KubeletConfiguration\ncgroupRoot: /k\ncontainerRuntimeEndpoint: unix:///not/this\n",
		}}, "", &host.KubeletProcess{PID: 7, Endpoint: "unix:///run/other.sock", CgroupRoot: "/k", SharesCgroups: true}},
		{"with a link as its configuration that leads out of its root", []map[string]string{{
			"proc/7/cmdline": "kubelet\x00--config=/k.yaml\x00", "proc/7/root/k.yaml": "->../../../outside", "outside": "cgroupRoot: /k\n",
		}}, "", &host.KubeletProcess{PID: 7, Endpoint: kubeletEndpoint, CgroupRoot: "/", SharesCgroups: true}},
		{"of another user", []map[string]string{{"proc/7/status": "Uid:\t0\t1000\t0\t0\n"}}, "", nil},
		{"whose users are not told", []map[string]string{{"proc/7/status": "Name:\tkubelet\n"}}, "", nil},
		{"in a mount namespace of its own", []map[string]string{elsewhere}, "", nil},
		{"in a PID namespace of its own", []map[string]string{{"proc/7/ns/pid": "->pid:[2]"}}, "", nil},
		{"with a socket that is missing", []map[string]string{arguments("/run/k.sock")}, "", &host.KubeletProcess{PID: 7, Endpoint: "unix:///run/k.sock", CgroupRoot: "/", SharesCgroups: true}},
		{"with podrun's path of the socket, and no socket", []map[string]string{arguments(ours)}, "", &host.KubeletProcess{PID: 7, Endpoint: "unix://" + ours, CgroupRoot: "/", SharesCgroups: true}},
		{"with podrun's socket", []map[string]string{arguments("/run/k.sock"), {"proc/7/root/run/k.sock": ""}}, ours,
			&host.KubeletProcess{PID: 7, Endpoint: "unix:///run/k.sock", CgroupRoot: "/", SharesRuntime: true, SharesCgroups: true}},
		{"in a container, with podrun's socket", []map[string]string{elsewhere, arguments("/run/k.sock"), {"proc/7/root/run/k.sock": ""}}, ours,
			&host.KubeletProcess{PID: 7, Endpoint: "unix:///run/k.sock", CgroupRoot: "/", SharesRuntime: true, SharesCgroups: true}},
		{"in a container, with another socket", []map[string]string{elsewhere, arguments("/run/k.sock"), {"proc/7/root/run/k.sock": ""}}, other, nil},
		{"in a container, with a link to podrun's socket", []map[string]string{elsewhere, arguments("/run/k.sock"), linked}, "", nil},
		{"in a container, with podrun's path of the socket", []map[string]string{elsewhere, arguments(ours)}, "", nil},
		{"in a container, with podrun's path and no socket of that kind", []map[string]string{elsewhere, arguments("/run/k.sock"), {"proc/7/root/run/k.sock": ""}}, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := maps.Clone(own)
			for _, f := range tc.files {
				maps.Copy(all, f)
			}
			m := tree(t, all)
			if tc.bind != "" {
				bind(t, tc.bind, m.path("proc/7/root/run/k.sock"))
			}
			got, err := kubeletSearch{m}.findKubelet("unix://" + ours)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Every kubelet sets these kernel parameters, and only the host's root can change them. If none of them has the
// kubelet's value, podrun reads no process.
func TestNoSearchIfNoKubeletCanBeRunning(t *testing.T) {
	process := map[string]string{
		"proc/self/ns/cgroup": "->cgroup:[1]", "proc/self/ns/pid": "->pid:[1]", "proc/self/ns/mnt": "->mnt:[1]",
		"proc/7/comm": "kubelet\n", "proc/7/status": "Uid:\t0\t0\t0\t0\n", "proc/7/exe": "", "proc/7/cmdline": "kubelet\x00",
		"proc/7/ns/cgroup": "->cgroup:[1]", "proc/7/ns/pid": "->pid:[1]", "proc/7/ns/mnt": "->mnt:[1]", "proc/7/root/etc/hosts": "",
	}
	for _, tc := range []struct {
		name                       string
		overcommit, panics, onOops string
		want                       bool
	}{
		{"with the kernel's defaults", "0\n", "0\n", "0\n", false},
		{"with other values", "2\n", "100\n", "0\n", false},
		{"after a kubelet has started", "1\n", "10\n", "1\n", true},
		{"after an administrator has changed two values", "0\n", "10\n", "0\n", true},
		{"with overcommit only", "1\n", "0\n", "0\n", true},
		{"with a panic on each oops only", "0\n", "0\n", "1\n", true},
		{"with a value that cannot be read", "0\n", "", "0\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := maps.Clone(process)
			for path, value := range map[string]string{"vm/overcommit_memory": tc.overcommit, "kernel/panic": tc.panics, "kernel/panic_on_oops": tc.onOops} {
				if value != "" {
					files["proc/sys/"+path] = value
				}
			}
			got, err := kubeletSearch{tree(t, files)}.findKubelet("")
			if err != nil || (got != nil) != tc.want {
				t.Errorf("found %+v, %v", got, err)
			}
		})
	}
}

// The user who starts a setuid program chooses the program's name and arguments.
func TestSetuidProgramIsNoKubelet(t *testing.T) {
	m := tree(t, map[string]string{"proc/7/status": "Uid:\t0\t0\t0\t0\n", "proc/7/exe": ""})
	if !(kubeletSearch{m}).runsAsRoot("7") {
		t.Error("an ordinary program that root runs does not count")
	}
	if err := os.Chmod(m.path("proc/7/exe"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if (kubeletSearch{m}).runsAsRoot("7") {
		t.Error("a setuid program counts")
	}
}

// With --allow-kubelet, podrun must not search for a kubelet.
func TestNoSearchForAKubeletUnlessAsked(t *testing.T) {
	pid := startKubelet(t, nil)
	for _, asked := range []bool{false, true} {
		facts, err := Read(t.Context(), nil, nodeconfig.Default(), Options{Kubelet: asked})
		if err != nil {
			t.Fatal(err)
		}
		if !asked && facts.Kubelet != nil {
			t.Errorf("asked %v: found %+v of %d", asked, facts.Kubelet, pid)
		}
	}
}

func listenUnix(t *testing.T, path string) string {
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return path
}

func bind(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); errors.Is(err, unix.EPERM) {
		t.Skip("needs root: mounts")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}
