package doctor

import (
	"fmt"
	"strings"

	"github.com/podrun/podrun/internal/rootless"
)

// minIDs is the number of subordinate IDs that useradd gives to a user. Images usually have no higher IDs.
const minIDs = 65536

// userNamespacesOfUser checks that an ordinary user may create user namespaces.
func userNamespacesOfUser(in Input) Finding {
	u := in.Checkup.User
	switch {
	case u == nil:
		return Finding{}
	case u.Running:
		return pass("user", "user %s runs pods in a user namespace of podrun-rootless", in.userName())
	case u.Forbidden == "":
		return pass("user", "user %s may create user namespaces", in.userName())
	}
	fix := "let root change this setting (sysctl), or use sudo"
	if strings.Contains(u.Forbidden, "apparmor") {
		fix = "let root load an AppArmor profile that permits user namespaces for podrun and podrun-rootless (docs/rootless.md), or run 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0'; or use sudo"
	}
	return Finding{Check: "user", Status: Fail, Summary: "user " + in.userName() + " may not create user namespaces: " + u.Forbidden, Fix: fix}
}

func (in Input) userName() string {
	if in.Facts.User != nil {
		return in.Facts.User.Name
	}
	return "?"
}

// subordinateIDs checks the ranges in /etc/subuid and /etc/subgid.
func subordinateIDs(in Input) Finding {
	u := in.Checkup.User
	if u == nil {
		return Finding{}
	}
	uids, gids := count(u.UIDs), count(u.GIDs)
	usermod := "let root run 'usermod --add-subuids 100000-165535 --add-subgids 100000-165535 " + in.userName() + "' with a range that no other user has, then run 'podrun runtime down'"
	switch {
	case u.Running && u.Changed:
		return Finding{Check: "subordinate-ids", Status: Warn, Summary: "the ranges in /etc/subuid or /etc/subgid have changed since podrun-rootless was started: pods still have the former IDs", Fix: "run 'podrun runtime down'"}
	case uids == 0 || gids == 0:
		return Finding{Check: "subordinate-ids", Status: Warn, Summary: "user " + in.userName() + " has no range in /etc/subuid or /etc/subgid: containers have only the ID 0, and only images whose files all belong to root work", Fix: usermod}
	case min(uids, gids) < minIDs:
		return Finding{Check: "subordinate-ids", Status: Warn, Summary: fmt.Sprintf("user %s has %d user IDs and %d group IDs: images with higher IDs do not work", in.userName(), uids, gids), Fix: usermod}
	}
	return pass("subordinate-ids", "%d user IDs and %d group IDs", uids, gids)
}

func count(all []rootless.IDRange) (n int64) {
	for _, r := range all {
		n += r.Count
	}
	return n
}

// idPrograms checks that newuidmap and newgidmap are installed.
func idPrograms(in Input) Finding {
	u := in.Checkup.User
	switch {
	case u == nil:
		return Finding{}
	case u.Programs["newuidmap"] == "" || u.Programs["newgidmap"] == "":
		fix := install(in.Checkup, "uidmap")
		if fix == "" {
			fix = "let root install newuidmap and newgidmap (the package uidmap or shadow-utils)"
		}
		return Finding{Check: "newuidmap", Status: Warn, Summary: "newuidmap or newgidmap is missing: containers have only the ID 0, and only images whose files all belong to root work", Fix: fix}
	}
	return pass("newuidmap", "%s and %s", u.Programs["newuidmap"], u.Programs["newgidmap"])
}

// userCgroups checks that an ordinary user's pods have cgroups, with the controllers of limits.
func userCgroups(in Input) Finding {
	u, c := in.Checkup.User, in.Facts.Cgroup
	warn := func(summary, fix string) Finding {
		return Finding{Check: "user-cgroups", Status: Warn, Summary: summary, Fix: fix}
	}
	const effect = ": limits have no effect, and the usage of CPU and memory is not available"
	switch {
	case u == nil:
		return Finding{}
	case c.Unavailable != "" && u.Undelegated == "" && u.Running:
		return warn(c.Unavailable+effect, "run 'podrun runtime down': the next podrun-rootless gets a cgroup from systemd")
	case c.Unavailable != "" && u.Undelegated == "":
		return pass("user-cgroups", "the systemd manager of the user gives podrun-rootless a cgroup when it starts")
	case c.Unavailable != "":
		return warn(c.Unavailable+effect, "use a host with cgroup v2 and systemd, and log in as "+in.userName()+" or run 'loginctl enable-linger', which starts the user's systemd manager; or use sudo for pods that require limits")
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if !c.Has(controller) {
			return warn("systemd does not delegate the controller "+controller+" to user "+in.userName()+": such limits have no effect",
				"let root run 'systemctl edit user@.service' and add the lines [Service] and Delegate=cpu memory pids")
		}
	}
	return pass("user-cgroups", "%s", strings.Join(c.Controllers, ", "))
}

// linger checks that the user's pods survive a logout.
func linger(in Input) Finding {
	u := in.Checkup.User
	switch {
	case u == nil || u.Lingers == nil:
		return Finding{}
	case !*u.Lingers:
		return Finding{Check: "linger", Status: Warn, Summary: "systemd may end the pods of user " + in.userName() + " when the last session ends, and does not start podrun.service of this user at boot",
			Fix: "run 'loginctl enable-linger'"}
	}
	return pass("linger", "pods of user %s survive a logout", in.userName())
}

// home checks the file system of the root directory.
func home(in Input) Finding {
	u := in.Checkup.User
	switch {
	case u == nil:
		return Finding{}
	case u.NetworkHome:
		return Finding{Check: "home", Status: Warn, Summary: in.Settings.RootDir + " is on a network file system: subordinate IDs and overlayfs do not work there",
			Fix: "set a directory on a local file system with --root-dir, or rootDir in the settings file"}
	}
	return pass("home", "%s is on a local file system", in.Settings.RootDir)
}
