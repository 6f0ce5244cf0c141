package discover

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/hostfile"
)

// readMachine reads the names, labels, capacity and security modules of the node.
func (m node) readMachine(f *host.Facts, s nodeconfig.Settings) error {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return factError("read the kernel's version", err, "")
	}
	f.Hostname = unix.ByteSliceToString(uts.Nodename[:])
	f.KernelVersion = unix.ByteSliceToString(uts.Release[:])
	f.NodeName = NodeName(f.Hostname, s.HostnameOverride)
	if f.NodeName == "" {
		return factError("determine the node's name", fmt.Errorf("the hostname is empty"), "set the hostname, or --hostname-override")
	}
	f.RootDir = m.rootDir(s.RootDir)
	f.OS, f.Arch = runtime.GOOS, runtime.GOARCH
	f.NodeLabels = nodeLabels(f.NodeName, s.NodeLabels)
	f.MaxUserNamespaces = m.sysctls("user.max_user_namespaces")["user.max_user_namespaces"]
	f.AppArmor = m.flag("sys/module/apparmor/parameters/enabled")
	f.SELinux = m.exists("sys/fs/selinux/enforce")
	f.AppArmorProfiles = m.appArmorProfiles()
	f.NodeTaints = s.RegisterWithTaints
	f.ThermalPaths = m.thermalPaths()
	f.Devices = s.Devices
	f.Emulated = m.emulated()
	return m.readCapacity(f, s)
}

// emulated lists the architectures that this host emulates with QEMU's user mode.
func (m node) emulated() []string {
	var out []string
	entries, err := os.ReadDir(m.path("proc/sys/fs/binfmt_misc"))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if arch, ok := strings.CutPrefix(e.Name(), "qemu-"); ok {
			out = append(out, arch)
		}
	}
	return out
}

// NodeName returns the node name as the kubelet does: in lower case, and without blanks around
// it.
func NodeName(hostname, override string) string {
	if override = strings.TrimSpace(override); override != "" {
		hostname = override
	}
	return strings.ToLower(strings.TrimSpace(hostname))
}

// nodeLabels adds the labels that the kubelet sets on its own node to the given ones. The given
// labels cannot override them.
func nodeLabels(name string, given map[string]string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, given)
	labels[corev1.LabelHostname] = name
	labels[corev1.LabelOSStable] = runtime.GOOS
	labels[corev1.LabelArchStable] = runtime.GOARCH
	labels["beta.kubernetes.io/os"] = runtime.GOOS
	labels["beta.kubernetes.io/arch"] = runtime.GOARCH
	return labels
}

// readCapacity sets Capacity, the memory and the huge pages.
func (m node) readCapacity(f *host.Facts, s nodeconfig.Settings) error {
	mem, err := m.meminfo()
	if err != nil {
		return factError("read the memory's size", err, "is /proc mounted?")
	}
	f.MemoryAvailable, f.SwapTotal = mem["MemAvailable"], mem["SwapTotal"]
	f.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(m.cpus()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(mem["MemTotal"], resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(int64(s.MaxPods), resource.DecimalSI),
	}
	if f.NodeFS, err = nodeFS(s.RootDir); err != nil {
		return factError("read the capacity of "+s.RootDir, err, "")
	}
	f.Capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(f.NodeFS.CapacityBytes, resource.BinarySI)
	f.PIDs = m.pids()
	for name, devices := range s.Devices {
		f.Capacity[corev1.ResourceName(name)] = *resource.NewQuantity(int64(len(devices)), resource.DecimalSI)
	}
	return m.readHugePages(f)
}

// meminfo reads /proc/meminfo. The values are in bytes.
func (m node) meminfo() (map[string]int64, error) {
	data, err := m.read(maxProcFile, "proc/meminfo")
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/meminfo: %q: %w", strings.TrimSpace(line), err)
		}
		if len(fields) > 2 && fields[2] == "kB" {
			n <<= 10
		}
		out[strings.TrimSuffix(fields[0], ":")] = n
	}
	if out["MemTotal"] <= 0 {
		return nil, fmt.Errorf("/proc/meminfo has no MemTotal")
	}
	return out, nil
}

// cpus counts the processors that are online, as the kubelet does. It includes processors that
// this process may not use.
func (m node) cpus() int {
	data, err := m.read(maxProcFile, "sys/devices/system/cpu/online")
	if err == nil {
		if n := countList(strings.TrimSpace(string(data))); n > 0 {
			return n
		}
	}
	return runtime.NumCPU()
}

// thermalPaths lists the thermal counters of each CPU. The kubelet hides them from containers,
// because they reveal the load of the host.
func (m node) thermalPaths() []string {
	var out []string
	for cpu := range m.cpus() {
		path := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/thermal_throttle", cpu)
		if m.exists(path) {
			out = append(out, path)
		}
	}
	return out
}

// countList counts the members of a kernel list such as 0-3,8. If the list is invalid, it
// returns 0.
func countList(list string) int {
	total := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		if err != nil {
			return 0
		}
		hi := lo
		if isRange {
			if hi, err = strconv.Atoi(last); err != nil || hi < lo {
				return 0
			}
		}
		total += hi - lo + 1
	}
	return total
}

// readHugePages reads the page sizes that the kernel supports, and how many pages of each size
// are preallocated.
func (m node) readHugePages(f *host.Facts) error {
	dir := m.path("sys/kernel/mm/hugepages")
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return factError("read the huge pages", err, "")
	}
	for _, e := range entries {
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		data, err := hostfile.Read(m.ctx, filepath.Join(dir, e.Name(), "nr_hugepages"), maxProcFile)
		if err != nil {
			return factError("read the huge pages", err, "")
		}
		pages, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			return factError("read the huge pages", err, "")
		}
		size := kb << 10
		f.HugePageSizes = append(f.HugePageSizes, size)
		name := corev1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		f.Capacity[corev1.ResourceName(name)] = *resource.NewQuantity(pages*size, resource.BinarySI)
	}
	slices.Sort(f.HugePageSizes)
	return nil
}

func (m machine) exists(path string) bool {
	_, err := os.Stat(m.path(path))
	return err == nil
}

// flag reads the value of a parameter of a kernel module, which is Y or N. If the file does not
// exist, the value is N.
func (m machine) flag(path string) bool {
	data, err := m.read(maxProcFile, path)
	return err == nil && strings.HasPrefix(string(data), "Y")
}
