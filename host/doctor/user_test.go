package doctor

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/rootless"
)

// TestUser checks what doctor reports for an ordinary user. Each problem has a fix.
func TestUser(t *testing.T) {
	yes, no := true, false
	sound := func() Input {
		ids := []rootless.IDRange{{First: 100000, Count: 65536}}
		return Input{Facts: host.Facts{User: &host.User{Name: "ann"}}, Checkup: host.Checkup{PackageManager: "apt-get", User: &host.UserCheckup{
			UIDs: ids, GIDs: ids, Programs: map[string]string{"newuidmap": "/usr/bin/newuidmap", "newgidmap": "/usr/bin/newgidmap"}, Lingers: &yes}}}
	}
	for name, c := range map[string]struct {
		set   func(*Input)
		check func(Input) Finding
		want  Status
		text  string // part of the summary and the fix
	}{
		"sound: user":     {func(*Input) {}, userNamespacesOfUser, Pass, "may create"},
		"sound: ids":      {func(*Input) {}, subordinateIDs, Pass, "65536 user IDs"},
		"sound: programs": {func(*Input) {}, idPrograms, Pass, "/usr/bin/newuidmap"},
		"sound: linger":   {func(*Input) {}, linger, Pass, "survive"},
		"sound: home":     {func(*Input) {}, home, Pass, "local"},
		"sound: cgroups":  {func(in *Input) { in.Facts.Cgroup.Controllers = []string{"cpu", "memory", "pids"} }, userCgroups, Pass, "cpu, memory, pids"},
		"no cpu":          {func(in *Input) { in.Facts.Cgroup.Controllers = []string{"memory", "pids"} }, userCgroups, Warn, "Delegate=cpu memory pids"},
		"not started":     {func(in *Input) { in.Facts.Cgroup.Unavailable = "does not run" }, userCgroups, Pass, "when it starts"},
		"started before":  {func(in *Input) { in.Facts.Cgroup.Unavailable, in.Checkup.User.Running = "no cgroups", true }, userCgroups, Warn, "podrun runtime down"},
		"Ubuntu":          {func(in *Input) { in.Checkup.User.Forbidden = "kernel.apparmor_restrict_unprivileged_userns = 1" }, userNamespacesOfUser, Fail, "AppArmor profile"},
		"no namespaces":   {func(in *Input) { in.Checkup.User.Forbidden = "user.max_user_namespaces = 0" }, userNamespacesOfUser, Fail, "user.max_user_namespaces = 0"},
		"no range":        {func(in *Input) { in.Checkup.User.GIDs = nil }, subordinateIDs, Warn, "usermod --add-subuids"},
		"small range":     {func(in *Input) { in.Checkup.User.UIDs[0].Count = 1000 }, subordinateIDs, Warn, "1000 user IDs"},
		"changed range":   {func(in *Input) { in.Checkup.User.Running, in.Checkup.User.Changed = true, true }, subordinateIDs, Warn, "podrun runtime down"},
		"no uidmap":       {func(in *Input) { delete(in.Checkup.User.Programs, "newgidmap") }, idPrograms, Warn, "uidmap"},
		"no linger":       {func(in *Input) { in.Checkup.User.Lingers = &no }, linger, Warn, "loginctl enable-linger"},
		"NFS":             {func(in *Input) { in.Checkup.User.NetworkHome = true }, home, Warn, "--root-dir"},
		"no cgroups":      {func(in *Input) { in.Facts.Cgroup.Unavailable, in.Checkup.User.Undelegated = "no cgroups", "v1" }, userCgroups, Warn, "no cgroups"},
	} {
		in := sound()
		c.set(&in)
		got := c.check(in)
		if got.Status != c.want || !strings.Contains(got.Summary+" "+got.Fix, c.text) || (c.want != Pass) != (got.Fix != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, check := range []func(Input) Finding{userNamespacesOfUser, subordinateIDs, idPrograms, userCgroups, linger, home} {
		if got := check(Input{}); got.Check != "" {
			t.Errorf("root: %+v", got)
		}
	}
}
