package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
)

// reachable checks whether a runtime answers calls of CRI v1. If none does, the finding has a
// fix for this host.
func reachable(in Input) Finding {
	r := in.Facts.Runtime
	if !in.down() {
		return pass("runtime", "%s %s answers at %s (CRI %s)", r.Name, r.Version, r.Endpoint, r.APIVersion)
	}
	if in.EmbeddedProblem != "" && in.EmbeddedFix != "" {
		return Finding{Check: "runtime", Status: Fail, Summary: in.Down, Fix: in.EmbeddedFix}
	}
	if in.Startable {
		return pass("runtime", "%s; 'podrun apply' starts it", in.Down)
	}
	return Finding{Check: "runtime", Status: Fail, Summary: in.Down, Fix: in.fixRuntime()}
}

// embedded checks whether the embedded runtime can run, if podrun uses it.
func embedded(in Input) Finding {
	if in.Embedded == "" {
		return pass("embedded-runtime", "not used")
	}
	for _, d := range in.Checkup.Directories {
		if d.Setting == "--root-dir" && d.NoExec {
			return Finding{Check: "embedded-runtime", Status: Fail, Summary: d.Path + " is on a file system that is mounted with noexec: the runtime's programs cannot be executed there",
				Fix: "set a directory on another file system with --root-dir, or remount without noexec"}
		}
	}
	if in.EmbeddedProblem != "" {
		return Finding{Check: "embedded-runtime", Status: Fail, Summary: "it cannot be used: " + in.EmbeddedProblem, Fix: in.EmbeddedFix}
	}
	if in.Collision != "" {
		return Finding{Check: "embedded-runtime", Status: Warn, Summary: in.Collision, Fix: CollisionFix}
	}
	return pass("embedded-runtime", "%s", in.Embedded)
}

// replacedStore reports that podrun replaced a damaged store of the embedded runtime, until the
// user removes that store.
func replacedStore(in Input) Finding {
	if in.EmbeddedReplaced == "" {
		return Finding{}
	}
	return Finding{Check: "embedded-runtime-store", Status: Warn, Summary: in.EmbeddedReplaced + "; the writable layers of the containers were lost",
		Fix: "check the disk and the memory of this host, then remove the damaged store"}
}

// CollisionFix says how to give the pods of the embedded runtime another subnet.
const CollisionFix = "delete the pods and run 'podrun runtime down': podrun then chooses another subnet when it starts the runtime again"

// fixRuntime returns the text that says how to install or start a runtime.
func (in Input) fixRuntime() string {
	c := in.Checkup
	restart := func(service string) string {
		if c.Systemd {
			return "systemctl restart " + service
		}
		return "restart " + service
	}
	switch {
	case strings.Contains(in.Down, "permission denied"):
		return "run as root"
	case c.CRIDisabledIn != "":
		return fmt.Sprintf("remove \"cri\" from disabled_plugins in %s, then: %s", c.CRIDisabledIn, restart("containerd"))
	case len(c.OtherSockets) > 0:
		return fmt.Sprintf("use the runtime on this host: --container-runtime-endpoint unix://%s", c.OtherSockets[0])
	case c.Programs["containerd"] != "":
		return restart("containerd") + "; or set its socket: --container-runtime-endpoint unix:///path/to.sock"
	case c.Programs["crio"] != "":
		return restart("crio") + "; or set its socket: --container-runtime-endpoint unix:///path/to.sock"
	}
	if commands := InstallRuntime(c); commands != "" {
		return commands
	}
	return in.DownHint
}

// InstallRuntime returns the commands that install and start a container runtime with network
// plugins. It returns "" if the package manager is unknown.
func InstallRuntime(c host.Checkup) string {
	commands := install(c, "containerd", "runc", "cni")
	if commands != "" && c.Systemd {
		commands += " && systemctl enable --now containerd"
	}
	return commands
}

// packageNames maps a program to the names of its package. There is one name per package
// manager.
var packageNames = map[string]map[string]string{
	"uidmap": {"dnf": "shadow-utils", "zypper": "shadow", "apk": "shadow-subids", "pacman": "shadow"},
	"cni":    {"apt-get": "containernetworking-plugins", "dnf": "containernetworking-plugins", "zypper": "cni-plugins", "apk": "cni-plugins", "pacman": "cni-plugins"},
}

// installers maps package managers to the commands that install packages.
var installers = map[string]string{"apt-get": "apt-get install", "dnf": "dnf install", "zypper": "zypper install", "apk": "apk add", "pacman": "pacman -S"}

// install returns the command that installs packages on this host. It returns "" if the package
// manager is unknown.
func install(c host.Checkup, packages ...string) string {
	command, known := installers[c.PackageManager]
	if !known {
		return ""
	}
	for _, p := range packages {
		if other := packageNames[p][c.PackageManager]; other != "" {
			p = other
		}
		command += " " + p
	}
	return command
}

func runtimeReady(in Input) Finding {
	return in.requireRuntime("runtime-ready", func() Finding {
		if p, bad := in.refused("RuntimeNotReady"); bad {
			return refusal("", p)
		}
		return pass("", "the runtime is ready")
	})
}

// runtimeWarnings reports other warnings in the runtime's status. containerd warns about settings
// and kernels that its later versions will not support.
func runtimeWarnings(in Input) Finding {
	return in.requireRuntime("runtime-warnings", func() Finding {
		var said []string
		for _, c := range in.Facts.Runtime.Conditions {
			if !c.Status && c.Type != runtimeapi.RuntimeReady && c.Type != runtimeapi.NetworkReady {
				said = append(said, strings.Join(strings.Fields(c.Type+": "+c.Reason+" "+c.Message), " "))
			}
		}
		if len(said) > 0 {
			return Finding{Status: Warn, Summary: strings.Join(said, "; "), Fix: "see the runtime's release notes"}
		}
		return pass("", "the runtime has no warnings")
	})
}

// oldest maps a runtime to its first version with CRI v1.
var oldest = map[string]string{"containerd": "1.6.0", "cri-o": "1.23.0"}

// runtimeVersion warns if podrun was not tested with this version of the runtime.
func runtimeVersion(in Input) Finding {
	return in.requireRuntime("runtime-version", func() Finding { return testedVersion(in.Facts.Runtime) })
}

func testedVersion(r host.Runtime) Finding {
	since, known := oldest[r.Name]
	if !known {
		return Finding{Status: Warn, Summary: fmt.Sprintf("podrun is not tested with %s", r.Name), Fix: "use containerd or CRI-O"}
	}
	have, err := version.ParseGeneric(r.Version)
	if err == nil && !have.AtLeast(version.MustParseGeneric(since)) {
		return Finding{Status: Warn, Summary: fmt.Sprintf("%s %s is older than %s", r.Name, r.Version, since), Fix: "update it"}
	}
	return pass("", "%s %s", r.Name, r.Version)
}

// handlers reports the features of the runtime's handlers.
func handlers(in Input) Finding {
	return in.requireRuntime("handlers", func() Finding {
		r := in.Facts.Runtime
		if !r.HandlersOK {
			return Finding{Status: Pass, Summary: "the runtime does not list its handlers. Therefore, podrun does not check RuntimeClasses, and refuses user namespaces (hostUsers: false) and recursive read-only mounts: the runtime may ignore them"}
		}
		var all []string
		for name, h := range r.Handlers {
			all = append(all, describe(name, h))
		}
		slices.Sort(all)
		text := strings.Join(all, "; ")
		if r.Features["supplementalGroupsPolicy"] {
			text += "; supplementalGroupsPolicy"
		}
		return pass("", "%s", text)
	})
}

func describe(name string, h host.RuntimeHandler) string {
	if name == "" {
		name = "the default"
	}
	var can []string
	if h.UserNamespaces {
		can = append(can, "user namespaces")
	}
	if h.RecursiveReadOnlyMounts {
		can = append(can, "recursive read-only mounts")
	}
	if len(can) == 0 {
		return name
	}
	return name + ": " + strings.Join(can, ", ")
}

// sandboxImage checks whether the pause image is present. If it is not, and the host has no
// registry, no pod starts.
func sandboxImage(in Input) Finding {
	return in.requireRuntime("sandbox-image", func() Finding {
		image := in.Checkup.SandboxImage
		switch {
		case in.EmbeddedSandbox != "":
			return Finding{Status: Fail, Summary: "the embedded runtime does not use podrun's sandbox (pause) image: " + in.EmbeddedSandbox,
				Fix: "podrun runtime up; then delete the pods and apply them again, because their sandboxes may run another program"}
		case in.EmbeddedLost != "":
			return Finding{Status: Warn, Summary: "images are damaged, and podrun loads them again when a pod requires them: " + in.EmbeddedLost,
				Fix: "podrun runtime up loads them immediately; check the disk if this happens again"}
		case image.Name == "" && image.Present != nil && !*image.Present:
			return Finding{Status: Warn, Summary: "the runtime's sandbox (pause) image is not present: the runtime will pull it for the first pod",
				Fix: "load or pull the image that " + in.Facts.Runtime.SandboxKey() + " specifies in the runtime's configuration"}
		case image.Name == "":
			return pass("", "the runtime does not report its sandbox (pause) image")
		case image.Present == nil:
			return Finding{Status: Warn, Summary: fmt.Sprintf("the runtime does not report whether its sandbox (pause) image %s is present", image.Name)}
		case !*image.Present:
			return Finding{Status: Warn, Summary: fmt.Sprintf("the sandbox (pause) image %s is not present: the runtime will pull it for the first pod", image.Name),
				Fix: fmt.Sprintf("podrun image pull %s; or set another image in the runtime's configuration (%s)", image.Name, in.Facts.Runtime.SandboxKey())}
		}
		return pass("", "the sandbox (pause) image %s is present", image.Name)
	})
}

// devices checks whether the runtime can add the devices that --device sets.
func devices(in Input) Finding {
	if len(in.Facts.Devices) == 0 {
		return pass("devices", "none are configured (--device)")
	}
	return in.requireRuntime("devices", func() Finding {
		if may := in.Facts.Runtime.CDI; may != nil && !*may {
			return Finding{Status: Warn, Summary: "the runtime does not add CDI devices to containers: pods that request them are refused",
				Fix: "containerd 1.7 with enable_cdi = true in its CRI configuration, containerd 2.0, or CRI-O 1.28"}
		}
		var unknown []string
		n := 0
		for _, ids := range in.Facts.Devices {
			for _, id := range ids {
				n++
				if in.Facts.CDI != nil && !slices.Contains(in.Facts.CDI.Devices, id) {
					unknown = append(unknown, id)
				}
			}
		}
		if len(unknown) > 0 {
			slices.Sort(unknown)
			return Finding{Status: Warn, Summary: fmt.Sprintf("no CDI specification of %s defines %s", strings.Join(in.Facts.CDI.Dirs, ", "), strings.Join(unknown, ", ")),
				Fix: "generate the specification with the vendor's tool, such as 'nvidia-ctk cdi generate'"}
		}
		return pass("", "%d configured, all with a CDI specification", n)
	})
}

// runtimeConfig reports which configuration files of CRI-O podrun has read. Runtimes that
// report their configuration themselves do not need this check.
func runtimeConfig(in Input) Finding {
	if in.down() || !in.Facts.Runtime.IsCRIO() {
		return Finding{}
	}
	return in.requireRuntime("runtime-config", func() Finding {
		r := in.Facts.Runtime
		switch {
		case r.ConfigProblem != "":
			return Finding{Status: Warn, Summary: r.ConfigProblem, Fix: "correct it"}
		case len(r.ConfigFiles) == 0:
			return Finding{Status: Skip, Summary: "no configuration file of CRI-O was found"}
		}
		text := strings.Join(r.ConfigFiles, ", ")
		if least := r.MinMemory[""]; least > 0 {
			text += fmt.Sprintf("; containers have a memory limit of at least %s", resource.NewQuantity(least, resource.BinarySI))
		}
		if len(r.Ulimits) > 0 {
			text += "; ulimits: " + strings.Join(r.Ulimits, ", ")
		}
		return pass("", "%s", text)
	})
}

// oomScore reports whether the runtime can set the OOM scores that podrun requests, like a
// kubelet. To lower a score, the runtime needs CAP_SYS_RESOURCE.
func oomScore(in Input) Finding {
	return in.requireRuntime("oom-score", func() Finding {
		may, restricts := in.Checkup.RuntimeLowersOOM, in.Facts.Runtime.RestrictsOOM
		switch {
		case restricts != nil && *restricts:
			return pass("", "the runtime does not lower OOM scores (restrict_oom_score_adj): if memory runs out, the kernel may kill a pod's sandbox first")
		case may == nil:
			return Finding{Status: Skip, Summary: "the runtime's process is not visible to podrun"}
		case !*may && restricts == nil:
			return Finding{Status: Warn, Summary: fmt.Sprintf("the runtime (process %d) lacks CAP_SYS_RESOURCE: it cannot set the OOM score that a kubelet sets for sandboxes", in.Checkup.RuntimePID),
				Fix: "if sandboxes fail to start, grant the capability"}
		case !*may:
			return Finding{Status: Fail, Summary: fmt.Sprintf("the runtime (process %d) lacks CAP_SYS_RESOURCE but tries to lower OOM scores: no sandbox can start", in.Checkup.RuntimePID),
				Fix: in.Facts.Runtime.LowerOOM()}
		}
		return pass("", "the runtime may lower OOM scores")
	})
}
