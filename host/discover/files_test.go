package discover

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// tree returns a machine with these files. If the content begins with ->, it creates a symlink.
func tree(t *testing.T, files map[string]string) machine {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(content) > 2 && content[:2] == "->" {
			err = os.Symlink(content[2:], path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return machine{ctx: t.Context(), root: root}
}

func TestCapacity(t *testing.T) {
	m := tree(t, map[string]string{
		"proc/meminfo":                  "MemTotal:        2048 kB\nMemAvailable:    1024 kB\nSwapTotal:       4 kB\nHugePages_Total:       3\n",
		"sys/devices/system/cpu/online": "0-3,8\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "3\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
		"sys/module/apparmor/parameters/enabled":                   "Y\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/count":       "0\n",
	})
	s := nodeconfig.Default()
	s.HostnameOverride = " Node-A "
	s.NodeLabels = map[string]string{"disk": "ssd", "kubernetes.io/hostname": "lies"}
	s.RootDir = filepath.Join(m.root, "not/there/yet")
	var f host.Facts
	if err := (node{m}).readMachine(&f, s); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[corev1.ResourceName]string{
		"cpu": "5", "memory": "2Mi", "pods": "110", "hugepages-2Mi": "6Mi", "hugepages-1Gi": "0",
	} {
		if got := f.Capacity[name]; got.String() != want {
			t.Errorf("%s is %s, want %s", name, got.String(), want)
		}
	}
	if f.Capacity.StorageEphemeral().IsZero() {
		t.Error("no ephemeral storage")
	}
	type rest struct {
		Name, Host, Disk  string
		Available, Swap   int64
		Pages             []int64
		AppArmor, SELinux bool
		Thermal           []string
	}
	got := rest{f.NodeName, f.NodeLabels["kubernetes.io/hostname"], f.NodeLabels["disk"], f.MemoryAvailable, f.SwapTotal,
		f.HugePageSizes, f.AppArmor, f.SELinux, f.ThermalPaths}
	want := rest{"node-a", "node-a", "ssd", 1 << 20, 4 << 10, []int64{2 << 20, 1 << 30}, true, false,
		[]string{"/sys/devices/system/cpu/cpu1/thermal_throttle"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMachineWithoutMemory(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no /proc": {"etc/hosts": ""},
		"no total": {"proc/meminfo": "MemFree: 1 kB\n"},
		"garbage":  {"proc/meminfo": "MemTotal: many kB\n"},
	} {
		if err := (node{tree(t, files)}).readMachine(&host.Facts{}, nodeconfig.Default()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseResolvConf(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want host.ResolvConf
	}{
		"empty": {"", host.ResolvConf{}},
		"all": {"# c\n; c\nnameserver 192.0.2.1\nnameserver\t192.0.2.2 # x\ndomain ignored\nsearch a.example b.example.\noptions ndots:2 rotate\n",
			host.ResolvConf{Nameservers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"a.example", "b.example"}, Options: []string{"ndots:2", "rotate"}}},
		"last search wins": {"search a\nsearch b .\n", host.ResolvConf{Searches: []string{"b"}}},
		"empty search":     {"search a\nsearch\n", host.ResolvConf{}},
		"options join":     {"options ndots:2 rotate\noptions ndots:5", host.ResolvConf{Options: []string{"rotate", "ndots:5"}}},
		"blanks":           {"   nameserver   192.0.2.1  \r\n", host.ResolvConf{Nameservers: []string{"192.0.2.1"}}},
	} {
		got, err := parseResolvConf(tc.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	if _, err := parseResolvConf("search a\nnameserver\n"); err == nil {
		t.Error("no error for a nameserver without an address")
	}
}

// A pod cannot reach the stub of systemd-resolved (kubeadm#273).
func TestResolvConf(t *testing.T) {
	stub := "nameserver 127.0.0.53\n"
	m := tree(t, map[string]string{
		"etc/resolv.conf": stub, "etc/stub.conf": stub,
		"run/systemd/resolve/resolv.conf": "nameserver 192.0.2.9\n",
	})
	for path, want := range map[string]host.ResolvConf{
		"":                 {},
		"/none":            {Path: "/none"},
		"/etc/resolv.conf": {Path: "/run/systemd/resolve/resolv.conf", Nameservers: []string{"192.0.2.9"}},
		// If the administrator has chosen the stub, podrun uses it.
		"/etc/stub.conf": {Path: "/etc/stub.conf", Nameservers: []string{"127.0.0.53"}},
	} {
		got, err := m.readResolvConf(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", path, diff)
		}
	}
}

const (
	v1Mounts = `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:29 / /a/very/long/second/place/for/it rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,xattr,memory
36 31 0:33 / /sys/fs/cgroup/a\040b rw,relatime - cgroup cgroup rw,hugetlb
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd
`
	hybridMount   = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	unifiedMount  = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
	hostileMounts = "garbage\n" +
		"50 31 0:40 / /pods/x\\9 rw - cgroup2 cgroup2 rw\n" +
		"51 31 0:41 / /- rw - cgroup2\n" +
		"52 31 0:42 / /pods/y rw - tmpfs - cgroup2 rw\n"
	controllers = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\ncpuacct\t1\t1\t1\nmemory\t2\t1\t0\nhugetlb\t3\t1\t1\n"
)

func TestCgroup(t *testing.T) {
	points := map[string]string{
		"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory",
		"hugetlb": "/sys/fs/cgroup/a b", "name=systemd": "/sys/fs/cgroup/systemd",
	}
	hybrid := map[string]string{"": "/sys/fs/cgroup/unified"}
	for k, v := range points {
		hybrid[k] = v
	}
	memory := "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"
	for name, tc := range map[string]struct {
		files map[string]string
		want  host.Cgroup
	}{
		"v1":      {map[string]string{"proc/self/mountinfo": v1Mounts, "proc/cgroups": controllers}, host.Cgroup{Version: 1, Controllers: []string{"cpu", "cpuacct", "hugetlb"}, MountPoints: points}},
		"hybrid":  {map[string]string{"proc/self/mountinfo": v1Mounts + hybridMount, "proc/cgroups": controllers, memory: "1"}, host.Cgroup{Version: 1, Controllers: []string{"cpu", "cpuacct", "hugetlb"}, MountPoints: hybrid, SwapLimits: true}},
		"hostile": {map[string]string{"proc/self/mountinfo": hostileMounts + v1Mounts + hostileMounts, "proc/cgroups": controllers}, host.Cgroup{Version: 1, Controllers: []string{"cpu", "cpuacct", "hugetlb"}, MountPoints: points}},
		"v2": {map[string]string{"proc/self/mountinfo": unifiedMount, "sys/fs/cgroup/cgroup.controllers": "memory cpu pids\n", "sys/fs/cgroup/init.scope/memory.swap.max": "max"},
			host.Cgroup{Version: 2, Controllers: []string{"cpu", "memory", "pids"}, MountPoints: map[string]string{"": "/sys/fs/cgroup"}, SwapLimits: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got host.Cgroup
			if err := (cgroups{tree(t, tc.files)}).readCgroup(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// containerd before 2.0 does not report its driver.
func TestDriver(t *testing.T) {
	booted := tree(t, map[string]string{"run/systemd/system/x": ""})
	bare := tree(t, map[string]string{"x": ""})
	for name, tc := range map[string]struct {
		m          machine
		version    int
		flag, said string
		want, from string
	}{
		"flag":             {booted, 2, "cgroupfs", "systemd", "cgroupfs", "flag"},
		"runtime":          {booted, 2, "", "cgroupfs", "cgroupfs", "runtime"},
		"systemd and v2":   {booted, 2, "", "", "systemd", "host"},
		"systemd and v1":   {booted, 1, "", "", "cgroupfs", "host"},
		"v2, another init": {bare, 2, "", "", "cgroupfs", "host"},
	} {
		c := host.Cgroup{Version: tc.version}
		s := nodeconfig.Default()
		s.CgroupDriver = tc.flag
		cgroups{tc.m}.chooseDriver(&c, s, tc.said)
		if c.Driver != tc.want || c.DriverFrom != tc.from {
			t.Errorf("%s: %s from %s, want %s from %s", name, c.Driver, c.DriverFrom, tc.want, tc.from)
		}
	}
}

func TestNodeIPs(t *testing.T) {
	for _, tc := range []struct {
		told []string
		want []string
		bad  bool
	}{
		{[]string{"192.0.2.1"}, []string{"192.0.2.1"}, false},
		{[]string{"2001:db8::1", " 192.0.2.1"}, []string{"2001:db8::1", "192.0.2.1"}, false},
		{[]string{"0.0.0.0"}, nil, false},
		{[]string{"192.0.2.1", "192.0.2.2"}, nil, true},
		{[]string{"nonsense"}, nil, true},
	} {
		got, err := parseNodeIPs(tc.told)
		if (err != nil) != tc.bad {
			t.Errorf("%v: error %v", tc.told, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" && !tc.bad {
			t.Errorf("%v: -want +got:\n%s", tc.told, diff)
		}
	}
}
