package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/statefile"
)

func root(in Input) Finding {
	if in.Checkup.User != nil {
		return Finding{} // the group user reports what this user requires
	}
	if in.Checkup.Root {
		return pass("root", "podrun runs as root")
	}
	return Finding{Check: "root", Status: Fail, Summary: "podrun must run as root to create cgroups and mounts", Fix: "sudo podrun doctor"}
}

// privileges checks whether the environment, such as a container, permits what pods require. A runtime that is already
// running has its own privileges, but podrun also mounts volumes.
func privileges(in Input) Finding {
	missing := in.Checkup.MissingPrivileges
	if missing == "" {
		return pass("privileges", "podrun can mount file systems and create network namespaces")
	}
	status := Fail
	if in.Embedded == "" && !in.down() {
		status = Warn
	}
	return Finding{Check: "privileges", Status: status, Summary: "podrun is not permitted to " + missing + ", which pods require", Fix: in.Checkup.PrivilegesHint}
}

// facts checks whether podrun can read all facts that plans need.
func facts(in Input) Finding {
	f := in.Facts
	if len(in.Unread) > 0 {
		return Finding{Check: "facts", Status: Fail, Summary: strings.Join(in.Unread, "; ")}
	}
	return pass("facts", "node %s, %s/%s, Linux %s", f.NodeName, f.OS, f.Arch, f.KernelVersion)
}

// stateFiles checks podrun's state files. None of them prevents the start of other pods.
func stateFiles(in Input) Finding {
	if len(in.StateFiles) == 0 {
		return pass("state-files", "podrun can use all of its state files")
	}
	shown := in.StateFiles[:min(5, len(in.StateFiles))]
	text := make([]string, len(shown))
	for i, f := range shown {
		text[i] = f.Error() + " (" + f.Effect() + ")"
	}
	return Finding{Check: "state-files", Status: Warn, Summary: fmt.Sprintf("podrun cannot use %d state files: %s", len(in.StateFiles), strings.Join(text, "; ")),
		Fix: stateFileFix(in.StateFiles)}
}

// stateFileFix returns the fixes of the files.
func stateFileFix(faults []*statefile.Fault) string {
	var corrupt, unreadable, newer bool
	for _, f := range faults {
		corrupt = corrupt || f.State == statefile.Corrupt
		unreadable = unreadable || f.State == statefile.Unreadable
		newer = newer || f.State == statefile.Newer
	}
	var out []string
	if unreadable {
		out = append(out, "check the disk and the permissions of the unreadable files")
	}
	if corrupt {
		out = append(out, "delete and reapply the objects of the corrupt files")
	}
	if newer {
		out = append(out, "use the newer podrun that wrote the newer files")
	}
	return strings.Join(out, "; ")
}

// rootFS reports a failure if runc cannot start containers because of the root file system.
func rootFS(in Input) Finding {
	if in.Checkup.Initramfs {
		return Finding{Check: "root-filesystem", Status: Fail, Summary: "the root file system is the kernel's initramfs, which containers cannot leave by pivot_root(2)",
			Fix: "let the init program mount a tmpfs, copy the files there and run switch_root to it"}
	}
	return pass("root-filesystem", "containers can leave the root file system by pivot_root(2)")
}

func rootDir(in Input) Finding       { return writable(in, "root-dir") }
func podLogs(in Input) Finding       { return writable(in, "pod-logs-dir") }
func containerLogs(in Input) Finding { return writable(in, "container-logs-dir") }

// longName is the maximum length of a file name on most file systems. On some, such as eCryptfs,
// the maximum is lower.
const longName = 255

// minLogSpace is the maximum size of the logs of one container: five files of 10Mi, as set by
// the kubelet's containerLogMaxSize and containerLogMaxFiles.
const minLogSpace = 50 << 20

func writable(in Input, check string) Finding {
	at := slices.IndexFunc(in.Checkup.Directories, func(d host.Directory) bool { return d.Setting == "--"+check })
	if at < 0 {
		return Finding{Check: check, Status: Skip, Summary: "was not checked"}
	}
	d := in.Checkup.Directories[at]
	switch {
	case !d.Writable:
		return Finding{Check: check, Status: Fail, Summary: fmt.Sprintf("%s is not writable: %s", d.Path, d.Problem),
			Fix: fmt.Sprintf("make it writable, or set another directory with %s", d.Setting)}
	case d.Full != "":
		return Finding{Check: check, Status: Fail, Summary: fmt.Sprintf("the file system of %s is full: it has no %s left", d.Path, d.Full),
			Fix: fmt.Sprintf("free %s, or set another directory with %s", d.Full, d.Setting)}
	case d.FreeBytes < minLogSpace:
		return Finding{Check: check, Status: Warn, Summary: fmt.Sprintf("%s has %s free", d.Path, bytes(d.FreeBytes)),
			Fix: fmt.Sprintf("free space, or set another directory with %s", d.Setting)}
	case d.LongName > 0 && d.LongName < longName:
		return Finding{Check: check, Status: Warn, Summary: fmt.Sprintf("the file system of %s limits file names to %d bytes, but podrun uses names such as <namespace>_<name>_<uid>, which can be longer", d.Path, d.LongName),
			Fix: fmt.Sprintf("use short pod names, or set a directory on another file system with %s", d.Setting)}
	}
	return pass(check, "%s is writable, %s free", d.Path, bytes(d.FreeBytes))
}

func settings(in Input) Finding {
	if in.SettingsFault != "" {
		return Finding{Check: "settings", Status: Fail, Summary: in.SettingsFault, Fix: in.SettingsFix}
	}
	if p, bad := in.refused("InvalidSetting"); bad {
		return refusal("settings", p)
	}
	if profile := in.Settings.DescribeProfile(); profile != "" {
		return pass("settings", "the settings are valid, including %s; %s; podrun does not verify image signatures: configure the runtime to do so", in.Settings.File, profile)
	}
	if in.Settings.File != "" {
		return pass("settings", "the settings are valid, including %s", in.Settings.File)
	}
	return pass("settings", "the settings are valid; there is no settings file")
}

// nodeName checks the name of this node, because the name becomes a label value.
func nodeName(in Input) Finding {
	if wrong := validation.IsDNS1123Subdomain(in.Facts.NodeName); len(wrong) > 0 {
		return Finding{Check: "node-name", Status: Warn, Summary: fmt.Sprintf("%q is not a valid node name: %s", in.Facts.NodeName, wrong[0]),
			Fix: "set one with --hostname-override"}
	}
	return pass("node-name", "%s", in.Facts.NodeName)
}

func kubelet(in Input) Finding {
	k := in.Facts.Kubelet
	if p, bad := in.refused("KubeletRunning"); bad {
		return refusal("kubelet", p)
	}
	if in.AllowKubelet {
		return pass("kubelet", "not checked: --allow-kubelet")
	}
	if k != nil {
		return pass("kubelet", "a kubelet runs on this host (process %d) and does not conflict with podrun", k.PID)
	}
	return pass("kubelet", "no kubelet runs on this host")
}

func allocatable(in Input) Finding {
	a, c := in.Allocatable, in.Facts.Capacity
	if p, bad := in.refused("OutOf" + string(corev1.ResourcePods)); bad {
		return refusal("allocatable", p)
	}
	text := fmt.Sprintf("cpu %s of %s, memory %s of %s, ephemeral-storage %s of %s, %s pods", a.Cpu(), c.Cpu(),
		bytes(a.Memory().Value()), bytes(c.Memory().Value()), bytes(a.StorageEphemeral().Value()), bytes(c.StorageEphemeral().Value()), a.Pods())
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q := a[name]; q.IsZero() {
			return Finding{Check: "allocatable", Status: Warn, Summary: fmt.Sprintf("no %s is left for pods: %s", name, text),
				Fix: "lower systemReserved, kubeReserved or evictionHard"}
		}
	}
	return pass("allocatable", "%s", text)
}

// pressure reports shortages. If there is only memory pressure, podrun refuses only BestEffort
// pods.
func pressure(in Input) Finding {
	f := pass("pressure", "memory %s, %s %s, process ids %d of %d free", bytes(in.Facts.MemoryAvailable), in.Facts.NodeFS.Path,
		bytes(in.Facts.NodeFS.AvailableBytes), in.Facts.PIDs.Max-in.Facts.PIDs.Used, in.Facts.PIDs.Max)
	var why []string
	for _, p := range in.Pressure {
		why = append(why, p.Condition+": "+p.Why)
		f.Status = Fail
	}
	if len(why) == 0 {
		return f
	}
	f.Summary, f.Fix = strings.Join(why, "; "), "free resources ('podrun image prune --all', 'podrun delete'), or lower evictionHard (--eviction-hard)"
	if !slices.ContainsFunc(in.Pressure, func(p Pressure) bool { return p.Condition != string(corev1.NodeMemoryPressure) }) {
		f.Status = Warn
		f.Summary += "; podrun refuses BestEffort pods"
	}
	return f
}

// swap warns if containers can use unlimited swap. (A kubelet does not start on a host
// with swap unless failSwapOn is false.)
func swap(in Input) Finding {
	switch {
	case in.Facts.SwapTotal == 0:
		return pass("swap", "the host has no swap")
	case in.Facts.Cgroup.SwapLimits:
		return pass("swap", "the host has %s of swap, which containers do not use", bytes(in.Facts.SwapTotal))
	}
	return Finding{Check: "swap", Status: Warn, Summary: fmt.Sprintf("the host has %s of swap, and the kernel cannot prevent containers from using it", bytes(in.Facts.SwapTotal)),
		Fix: "swapoff -a, or boot with swapaccount=1"}
}

// The kernel's default limits. If a limit is lower, containers that watch files fail with "too many open files".
const (
	fewInstances = 128
	fewWatches   = 8192
)

func inotify(in Input) Finding {
	instances, known := in.Checkup.Sysctls["fs.inotify.max_user_instances"]
	watches := in.Checkup.Sysctls["fs.inotify.max_user_watches"]
	switch {
	case !known:
		return Finding{Check: "inotify", Status: Skip, Summary: "the kernel does not report its limits"}
	case instances < fewInstances || watches < fewWatches:
		return Finding{Check: "inotify", Status: Warn,
			Summary: fmt.Sprintf("%d inotify instances and %d watches per user are too few for containers that watch files", instances, watches),
			Fix:     fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d fs.inotify.max_user_watches=524288", 4*fewInstances)}
	}
	return pass("inotify", "%d instances and %d watches per user", instances, watches)
}

// bytes formats an amount in whole Mi or Ki.
func bytes(n int64) string {
	if n >= 1<<20 {
		n = n >> 20 << 20
	}
	return apiresource.NewQuantity(n, apiresource.BinarySI).String()
}

// leftovers checks for resources on this host that podrun processes left because they were
// killed.
func leftovers(in Input) Finding {
	return in.requireRuntime("leftovers", func() Finding {
		if len(in.Leftovers) == 0 {
			return pass("leftovers", "no leftovers of killed podrun processes")
		}
		shown := in.Leftovers[:min(3, len(in.Leftovers))]
		return Finding{Status: Warn, Summary: fmt.Sprintf("%d leftovers of killed podrun processes: %s", len(in.Leftovers), strings.Join(shown, ", ")),
			Fix: "run 'podrun gc --dry-run' to list them, and 'podrun gc' to remove them"}
	})
}
