package discover

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
)

// The kubelet's defaults for what its command line and file leave out.
const (
	kubeletEndpoint   = "unix:///run/containerd/containerd.sock"
	kubeletCgroupRoot = "/"
)

// findKubelet looks for a running kubelet that may meet podrun's pods: one
// with the same runtime, else one with the same view of the cgroups. A kubelet
// in a container of its own (kind, minikube's docker driver) shares neither,
// and is none of our business; nil then.
func (m machine) findKubelet(client *cri.Client) (*host.KubeletProcess, error) {
	entries, err := os.ReadDir(m.path("proc"))
	if err != nil {
		return nil, trouble("list the processes", err, "is /proc mounted?")
	}
	var found *host.KubeletProcess
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if readShort(m.path("proc", e.Name(), "comm")) != "kubelet\n" {
			continue
		}
		k := m.describeKubelet(pid, client)
		switch {
		case k.SharesRuntime:
			return k, nil
		case k.SharesCgroups && found == nil:
			found = k
		}
	}
	return found, nil
}

// readShort reads a file of a few bytes; empty if it can't be read, as when its
// process ended meanwhile. By three system calls in place of os.ReadFile's ten:
// a host may have thousands of processes.
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

// describeKubelet reads a kubelet's command line, and its configuration file
// where it can be read.
func (m machine) describeKubelet(pid int, client *cri.Client) *host.KubeletProcess {
	dir := m.path("proc", strconv.Itoa(pid))
	k := &host.KubeletProcess{PID: pid, Endpoint: kubeletEndpoint, CgroupRoot: kubeletCgroupRoot}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err == nil {
		args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		if file := flagValue(args, "config"); file != "" {
			readKubeletConfig(k, filepath.Join(dir, "root", file))
		}
		override(&k.Endpoint, flagValue(args, "container-runtime-endpoint"))
		override(&k.CgroupRoot, flagValue(args, "cgroup-root"))
	}
	k.SharesRuntime = client != nil && sameSocket(filepath.Join(dir, "root"), k.Endpoint, client.Endpoint())
	k.SharesCgroups = sameLink(filepath.Join(dir, "ns/cgroup"), m.path("proc/self/ns/cgroup"))
	return k
}

// readKubeletConfig takes from a KubeletConfiguration what concerns podrun. A
// file that can't be read leaves the defaults: the answer is then the careful
// one.
func readKubeletConfig(k *host.KubeletProcess, path string) {
	data, err := os.ReadFile(path)
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

// flagValue finds --name=value or --name value; the last one wins.
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

// sameSocket tells whether a kubelet's endpoint, in its own root, is the very
// socket that podrun uses. Sockets that can't be compared count as the same if
// they have one name.
func sameSocket(root, theirs, ours string) bool {
	their, err := cri.SocketPath(theirs)
	if err != nil {
		return false
	}
	our, err := cri.SocketPath(ours)
	if err != nil {
		return false
	}
	a, errA := os.Stat(filepath.Join(root, their))
	b, errB := os.Stat(our)
	if errA != nil || errB != nil {
		return filepath.Clean(their) == filepath.Clean(our)
	}
	return os.SameFile(a, b)
}

// sameLink tells whether two of /proc's namespace links agree. Links that
// can't be read count as equal: the careful answer.
func sameLink(a, b string) bool {
	la, errA := os.Readlink(a)
	lb, errB := os.Readlink(b)
	return errA != nil || errB != nil || la == lb
}
