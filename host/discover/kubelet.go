package discover

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/component-helpers/node/util/sysctl"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/hostfile"
)

// The kubelet's defaults, for settings that are neither on its command line nor in its configuration file.
const (
	kubeletEndpoint   = "unix:///run/containerd/containerd.sock"
	kubeletCgroupRoot = "/"
)

// maxKubeletConfig limits a kubelet's configuration file, in bytes; kubeadm's has about 1
// KiB.
const maxKubeletConfig = 1 << 20

// foreignWithin limits the time in which podrun examines kubelets in other namespaces, because
// any number of processes may have that name.
const foreignWithin = time.Second

// yieldAfter is the number of processes after which searchKubelet lets other goroutines run (see
// yielding).
const yieldAfter = 8

// findKubelet looks for a running kubelet that may remove podrun's pods. This is a kubelet with the same
// runtime or, if there is none, one with the same view of the cgroups. It returns nil if there is neither. Any
// process can have the name and the arguments of a kubelet, so a process counts only on evidence that it cannot
// forge:
//
//   - it runs as the host's root, and its program is not one that any user may start as
//     root (setuid);
//   - if it is in podrun's PID and mount namespaces, its command line and configuration are used.
//     Only the host's root can start such a process;
//   - if it is in other namespaces (in a container, as with kind and Talos), it counts only if it can reach the
//     same socket that podrun uses, which requires a mount of it. Its files are not read.
//
// It reads no process if no kubelet can be running (hadKubelet).
func (m kubeletSearch) findKubelet(endpoint string) (*host.KubeletProcess, error) {
	if !m.hadKubelet() {
		return nil, nil
	}
	return m.searchKubelet(endpoint)
}

// kubeletTunables are the kernel parameters that every kubelet changes before it starts its first pod
// (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go; with protectKernelDefaults, it requires these
// values). The kubelet also sets three others, but to the kernel's defaults.
var kubeletTunables = map[string]int{
	sysctl.VMOvercommitMemory: sysctl.VMOvercommitMemoryAlways,
	sysctl.KernelPanic:        sysctl.KernelPanicRebootTimeout,
	sysctl.KernelPanicOnOops:  sysctl.KernelPanicOnOopsAlways,
}

// hadKubelet reports whether a kubelet may have run since the host booted: whether a kernel parameter has the value
// that a kubelet sets, or cannot be read. Only the host's root can change these parameters, so a container can
// neither hide a kubelet nor simulate one. One matching parameter is sufficient, because an administrator may have
// changed the others since. The search that this avoids needs three system calls for each process:
// with 420 processes, 3 to 4 ms of CPU time in each command.
func (m kubeletSearch) hadKubelet() bool {
	for name, value := range kubeletTunables {
		got := readShort(m.path("proc/sys", name))
		if got == "" || strings.TrimSpace(got) == strconv.Itoa(value) {
			return true
		}
	}
	return false
}

// searchKubelet is findKubelet without the check whether a kubelet can be running.
func (m kubeletSearch) searchKubelet(endpoint string) (*host.KubeletProcess, error) {
	entries, err := os.ReadDir(m.path("proc"))
	if err != nil {
		return nil, factError("list the processes", err, "is /proc mounted?")
	}
	var found *host.KubeletProcess
	var foreign []int
	for i, e := range entries {
		if i%yieldAfter == 0 {
			runtime.Gosched()
		}
		pid, err := strconv.Atoi(e.Name())
		if err != nil || readShort(m.path("proc", e.Name(), "comm")) != "kubelet\n" || !m.runsAsRoot(e.Name()) {
			continue
		}
		if !m.sameNamespace(e.Name(), "pid") || !m.sameNamespace(e.Name(), "mnt") {
			foreign = append(foreign, pid)
			continue
		}
		k := m.describeKubelet(pid, endpoint)
		switch {
		case k.SharesRuntime:
			return k, nil
		case k.SharesCgroups && found == nil:
			found = k
		}
	}
	if k := m.findForeign(foreign, endpoint); k != nil {
		return k, nil
	}
	return found, m.ctx.Err()
}

// findForeign searches the kubelets in other namespaces for one that uses the same runtime. It
// does not wait for a file system that does not respond.
func (m kubeletSearch) findForeign(pids []int, endpoint string) *host.KubeletProcess {
	if len(pids) == 0 || endpoint == "" {
		return nil
	}
	found := make(chan *host.KubeletProcess, 1)
	go func() {
		for _, pid := range pids {
			k := &host.KubeletProcess{PID: pid, Endpoint: kubeletEndpoint, CgroupRoot: kubeletCgroupRoot}
			m.readArguments(k)
			if sameSocket(m.path("proc", strconv.Itoa(pid), "root"), k.Endpoint, endpoint) {
				k.SharesRuntime, k.SharesCgroups = true, m.sameNamespace(strconv.Itoa(pid), "cgroup")
				found <- k
				return
			}
		}
		found <- nil
	}()
	select {
	case k := <-found:
		return k
	case <-m.ctx.Done():
	case <-time.After(foreignWithin):
	}
	return nil
}

// runsAsRoot reports whether all user IDs of a process are those of the host's root, and
// whether the process's program is not setuid. (The user who starts a setuid program chooses
// its name and arguments.)
func (m kubeletSearch) runsAsRoot(pid string) bool {
	status, err := m.read(maxProcFile, "proc", pid, "status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			info, err := os.Stat(m.path("proc", pid, "exe"))
			return slices.Equal(strings.Fields(ids), []string{"0", "0", "0", "0"}) && err == nil && info.Mode()&os.ModeSetuid == 0
		}
	}
	return false
}

// sameNamespace reports whether a process is in the same namespace of this kind as podrun.
func (m kubeletSearch) sameNamespace(pid, kind string) bool {
	theirs, err := os.Readlink(m.path("proc", pid, "ns", kind))
	ours, oerr := os.Readlink(m.path("proc/self/ns", kind))
	return err == nil && oerr == nil && theirs == ours
}

// readShort reads a file of a few bytes. If it cannot read the file, for example because the
// file's process has exited, it returns "". It makes three system calls, while os.ReadFile
// makes ten. This matters because a host may have thousands of processes.
func readShort(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var data [64]byte
	n, err := unix.Read(fd, data[:])
	if err != nil {
		return ""
	}
	return string(data[:n])
}

// describeKubelet reads the command line of a kubelet. If it can, it also reads the kubelet's
// configuration file.
func (m kubeletSearch) describeKubelet(pid int, endpoint string) *host.KubeletProcess {
	k := &host.KubeletProcess{PID: pid, Endpoint: kubeletEndpoint, CgroupRoot: kubeletCgroupRoot}
	root := m.path("proc", strconv.Itoa(pid), "root")
	if file := m.readArguments(k); file != "" {
		m.readKubeletConfig(k, root, file)
		// Flags take precedence over the file.
		m.readArguments(k)
	}
	k.SharesRuntime = sameSocket(root, k.Endpoint, endpoint)
	k.SharesCgroups = m.sameNamespace(strconv.Itoa(pid), "cgroup")
	return k
}

// readArguments reads those flags of a kubelet's command line that matter to podrun. It returns
// the path of the kubelet's configuration file.
func (m kubeletSearch) readArguments(k *host.KubeletProcess) (config string) {
	cmdline, err := m.read(maxProcFile, "proc", strconv.Itoa(k.PID), "cmdline")
	if err != nil {
		return ""
	}
	args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	override(&k.Endpoint, flagValue(args, "container-runtime-endpoint"))
	override(&k.CgroupRoot, flagValue(args, "cgroup-root"))
	return flagValue(args, "config")
}

// readKubeletConfig reads those fields of a KubeletConfiguration that matter to podrun. The
// path of the file is relative to the kubelet's root. If it cannot read the file, the defaults
// remain.
func (m kubeletSearch) readKubeletConfig(k *host.KubeletProcess, root, path string) {
	data, err := hostfile.ReadBelow(m.ctx, root, path, maxKubeletConfig)
	if err != nil {
		return
	}
	var config struct {
		ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
		CgroupRoot               string `json:"cgroupRoot"`
	}
	if yaml.Unmarshal(data, &config) == nil {
		override(&k.Endpoint, config.ContainerRuntimeEndpoint)
		override(&k.CgroupRoot, config.CgroupRoot)
	}
}

func override(value *string, other string) {
	if other != "" {
		*value = other
	}
}

// flagValue returns the value of --name=value or --name value. The last occurrence applies.
func flagValue(args []string, name string) string {
	var value string
	for i, a := range args {
		flag, v, given := strings.Cut(a, "=")
		if strings.TrimLeft(flag, "-") != name || !strings.HasPrefix(flag, "-") {
			continue
		}
		if !given && i+1 < len(args) {
			v = args[i+1]
		}
		value = v
	}
	return value
}

// sameSocket reports whether the endpoint of a kubelet is the socket that podrun uses. It resolves the endpoint
// in the kubelet's root directory. It compares the device and the inode, because the same path may lead to
// another file in another root directory. If one of the sockets does not exist, it returns false.
func sameSocket(root, theirs, ours string) bool {
	their, err := cri.SocketPath(theirs)
	if err != nil {
		return false
	}
	our, err := cri.SocketPath(ours)
	if err != nil {
		return false
	}
	var b unix.Stat_t
	a, errA := hostfile.StatBelow(root, their)
	errB := unix.Stat(our, &b)
	return errA == nil && errB == nil && a.Mode&unix.S_IFMT == unix.S_IFSOCK && a.Dev == b.Dev && a.Ino == b.Ino
}
