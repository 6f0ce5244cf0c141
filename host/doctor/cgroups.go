package doctor

import (
	"fmt"
	"strings"
)

func cgroupVersion(in Input) Finding {
	c := in.Facts.Cgroup
	switch {
	case c.Unavailable != "":
		return Finding{} // userCgroups reports it
	case c.Version == 0 || len(c.MountPoints) == 0:
		return Finding{Check: "cgroup-version", Status: Fail, Summary: "no cgroups are mounted", Fix: "mount -t cgroup2 none /sys/fs/cgroup"}
	case c.Version == 1 && c.MountPoints[""] != "":
		return pass("cgroup-version", "hybrid (versions 1 and 2)")
	}
	return pass("cgroup-version", "version %d", c.Version)
}

func controllers(in Input) Finding {
	if in.Facts.Cgroup.Unavailable != "" {
		return Finding{}
	}
	if p, bad := in.refused("CgroupControllerMissing"); bad {
		return refusal("cgroup-controllers", p)
	}
	return pass("cgroup-controllers", "%s", strings.Join(in.Facts.Cgroup.Controllers, ", "))
}

func cgroupsWritable(in Input) Finding {
	if in.Facts.Cgroup.Unavailable != "" {
		return Finding{}
	}
	if closed := in.Checkup.ReadOnlyCgroups; len(closed) > 0 {
		f := Finding{Check: "cgroups-writable", Status: Fail, Summary: strings.Join(closed, ", ") + " is not writable",
			Fix: "run on the host, or in a privileged container with writable cgroup mounts"}
		if !in.Checkup.Root {
			f.Fix = "run as root"
		}
		return f
	}
	return pass("cgroups-writable", "podrun can create cgroups below %s", in.Settings.CgroupRoot)
}

func cgroupDriver(in Input) Finding {
	if in.Facts.Cgroup.Unavailable != "" {
		return Finding{}
	}
	if p, bad := in.refused("CgroupDriverMismatch"); bad {
		return refusal("cgroup-driver", p)
	}
	c := in.Facts.Cgroup
	switch c.DriverFrom {
	case "runtime":
		return pass("cgroup-driver", "%s, as reported by the runtime", c.Driver)
	case "flag":
		if in.Facts.Runtime.ReportedDriver == "" {
			return pass("cgroup-driver", "%s, as set by --cgroup-driver; the runtime does not report its driver", c.Driver)
		}
		return pass("cgroup-driver", "%s, as set by --cgroup-driver and reported by the runtime", c.Driver)
	}
	if in.down() {
		return Finding{Check: "cgroup-driver", Status: Skip, Summary: fmt.Sprintf("%s, unless the runtime reports another driver when it runs", c.Driver)}
	}
	return Finding{Check: "cgroup-driver", Status: Warn, Summary: fmt.Sprintf("the runtime does not report its driver: podrun assumes %s", c.Driver),
		Fix: "set the runtime's driver with --cgroup-driver"}
}
