package embedded

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	someDigest  = strings.Repeat("a", 64)
	otherDigest = strings.Repeat("b", 64)
)

func TestLayoutFitsTheKernelsLimits(t *testing.T) {
	for _, root := range []string{"/var/lib/podrun", "/" + strings.Repeat("long/", 700)} {
		l := Layout{RootDir: root}
		if n := len(l.Socket() + ".ttrpc"); n > 107 {
			t.Errorf("%d bytes in a socket's path, the kernel accepts 107", n)
		}
		if n := len(l.Shims()); n > 42 {
			t.Errorf("%d bytes in the shims' directory, containerd accepts 42", n)
		}
		if n := len(l.Bridge()); n > 15 {
			t.Errorf("%d characters in a network interface's name, the kernel accepts 15", n)
		}
	}
	if a, b := (Layout{RootDir: "/a"}), (Layout{RootDir: "/b"}); a.State() == b.State() || a.Bridge() == b.Bridge() || a.Cgroup() == b.Cgroup() {
		t.Error("two root directories share a path or a name")
	}
}

func TestConfig(t *testing.T) {
	l := Layout{RootDir: "/data/pod \"run\""}
	o := StartOptions{Digest: someDigest, SandboxImage: "pause.podrun.invalid/pause@sha256:" + someDigest}
	text := string(Config(l, o, Traits{Overlay: true, SystemdCgroup: true, LowersOOM: true}))
	for _, want := range []string{
		"version = 4\n", `root = "/data/pod \"run\"/runtime/containerd"`, "oom_score = -999\n", "imports = []\n", "snapshotter = \"overlayfs\"\n",
		"required_plugins = [\"io.containerd.grpc.v1.cri\"]\n", "restrict_oom_score_adj = false\n", "SystemdCgroup = true\n", "use_internal_loopback = true\n", `sandbox = "pause.podrun.invalid/pause@sha256:` + someDigest + `"`,
		`bin_dirs = ["/data/pod \"run\"/runtime/` + someDigest + `/cni"]`, `BinaryName = "/data/pod \"run\"/runtime/` + someDigest + `/bin/runc"`,
		`address = "` + l.Socket() + `"`, `socket_dir = "` + l.Shims() + `"`, "level = \"warn\"\n",
		"[plugins.'io.containerd.cri.v1.images']\nsnapshotter = \"overlayfs\"\nimage_pull_progress_timeout = \"5m\"\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if got := sandboxImageIn(text); got != o.SandboxImage {
		t.Errorf("the sandbox image is %s", got)
	}
	const plugin = "io.containerd.image-verifier.v1.bindir"
	if !strings.Contains(text, quote(plugin)) || strings.Contains(text, "[plugins.'"+plugin+"']") {
		t.Error("without a verifier, which would accept all images, its plugin is enabled")
	}
	o.VerifyImages = true
	verifies := string(Config(l, o, Traits{}))
	for _, want := range []string{
		"required_plugins = [\"io.containerd.grpc.v1.cri\", \"" + plugin + "\"]\n",
		"[plugins.'" + plugin + "']\nbin_dir = \"/data/pod \\\"run\\\"/runtime/verifier\"\nmax_verifiers = 1\nper_verifier_timeout = \"10m\"\n",
	} {
		if !strings.Contains(verifies, want) {
			t.Errorf("no %s in\n%s", want, verifies)
		}
	}
	_, disabled, _ := strings.Cut(verifies, "disabled_plugins = ")
	if disabled, _, _ = strings.Cut(disabled, "\n"); strings.Contains(disabled, "image-verifier") {
		t.Errorf("disabled: %s", disabled)
	}
	o.VerifyImages = false
	text = string(Config(l, o, Traits{}))
	for _, want := range []string{"snapshotter = \"native\"\n", "oom_score = 0\n", "restrict_oom_score_adj = true\n", "SystemdCgroup = false\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "/run/containerd") || strings.Contains(text, "/var/lib/containerd") {
		t.Errorf("a path of the host's own containerd in\n%s", text)
	}
}

func TestHandlers(t *testing.T) {
	for name, c := range map[string]struct {
		found map[string]string
		want  []Handler
	}{
		"none":    {nil, nil},
		"unknown": {map[string]string{"runc": "/usr/sbin/runc", "runsc": "/usr/bin/runsc"}, nil},
		"all": {map[string]string{"youki": "/usr/bin/youki", "crun": "/usr/bin/crun", "nvidia-container-runtime": "/usr/bin/nvidia-container-runtime", "containerd-shim-kata-v2": "/opt/kata/bin/containerd-shim-kata-v2"},
			[]Handler{{Name: "crun", Program: "/usr/bin/crun"}, {Name: "kata", Shim: "/opt/kata/bin/containerd-shim-kata-v2"}, {Name: "nvidia", Program: "/usr/bin/nvidia-container-runtime"}, {Name: "youki", Program: "/usr/bin/youki"}}},
	} {
		if got := Handlers(c.found); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestConfigOfHandlers(t *testing.T) {
	l := Layout{RootDir: "/r"}
	text := string(Config(l, StartOptions{Digest: someDigest}, Traits{SystemdCgroup: true, Handlers: []Handler{{Name: "crun", Program: "/usr/bin/crun"}, {Name: "kata", Shim: "/opt/kata/bin/containerd-shim-kata-v2"}}}))
	section := func(name string) string {
		return "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes." + name + "]\n"
	}
	shim := "runtime_type = \"io.containerd.runc.v2\"\nruntime_path = \"" + l.Unpacked(someDigest) + "/bin/containerd-shim-runc-v2\"\n"
	want := section("runc") + shim + section("runc.options") + "BinaryName = \"" + l.Unpacked(someDigest) + "/bin/runc\"\nRoot = \"" + l.State() + "/runc\"\nSystemdCgroup = true\n" +
		section("crun") + shim + section("crun.options") + "BinaryName = \"/usr/bin/crun\"\nRoot = \"" + l.State() + "/crun\"\nSystemdCgroup = true\n" +
		section("kata") + "runtime_type = \"io.containerd.kata.v2\"\nruntime_path = \"/opt/kata/bin/containerd-shim-kata-v2\"\nprivileged_without_host_devices = true\n"
	if !strings.HasSuffix(text, want) {
		t.Errorf("the configuration does not end with\n%s\nbut is\n%s", want, text)
	}
}

func TestEnvironmentHasNothingOfTheCaller(t *testing.T) {
	own := []string{"HOME=/root", "PATH=/evil", "RUNNER_TRACKING_ID=1", "NOTIFY_SOCKET=/run/s", "https_proxy=http://proxy", "SSL_CERT_FILE=/ca", "container=lxc"}
	got := Environment(Layout{RootDir: "/r"}, someDigest, Remember("", own), own)
	want := []string{"PATH=/r/runtime/" + someDigest + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOGC=50", "container=lxc", "https_proxy=http://proxy", "SSL_CERT_FILE=/ca"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestRemember(t *testing.T) {
	for name, c := range map[string]struct {
		record string
		own    []string
		want   string
	}{
		"first start":                {"", []string{"HTTPS_PROXY=http://a", "HOME=/root"}, "HTTPS_PROXY=http://a\n"},
		"a command without settings": {"HTTPS_PROXY=http://a\nNO_PROXY=b, c\n", []string{"HOME=/root"}, "HTTPS_PROXY=http://a\nNO_PROXY=b, c\n"},
		"another value":              {"HTTPS_PROXY=http://a\nNO_PROXY=b\n", []string{"HTTPS_PROXY=http://c"}, "HTTPS_PROXY=http://c\nNO_PROXY=b\n"},
		"an empty value":             {"HTTPS_PROXY=http://a\nNO_PROXY=b\n", []string{"HTTPS_PROXY="}, "NO_PROXY=b\n"},
		"a user's file":              {"# proxy\n\nNO_PROXY=b\r\nLD_PRELOAD=/x\nHTTP_PROXY", nil, "NO_PROXY=b\n"},
		"a value of two lines":       {"", []string{"NO_PROXY=a\nPATH=/x"}, ""},
	} {
		if got := Remember(c.record, c.own); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSubnet(t *testing.T) {
	prefixes := func(all ...string) []netip.Prefix {
		var out []netip.Prefix
		for _, s := range all {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	for name, c := range map[string]struct {
		id   string
		used []netip.Prefix
		want string
	}{
		"the first":                {"00000000", nil, "10.64.0.0/24"},
		"by the ID":                {"00000102", nil, "10.65.2.0/24"},
		"IDs beyond the pool wrap": {"ffffffff", nil, "10.127.255.0/24"},
		"a route":                  {"00000000", prefixes("10.64.0.0/24", "10.64.1.128/25"), "10.64.2.0/24"},
		"a host's address":         {"00000000", prefixes("10.64.0.17/32"), "10.64.1.0/24"},
		"half of the pool":         {"00000000", prefixes("10.64.0.0/11"), "10.96.0.0/24"},
		"wraps over its end":       {"00003fff", prefixes("10.127.255.0/24"), "10.64.0.0/24"},
		"the default route":        {"00000000", prefixes("0.0.0.0/0"), "10.64.0.0/24"},
		"elsewhere":                {"00000000", prefixes("192.0.2.0/24", "172.17.0.0/16"), "10.64.0.0/24"},
		"a route to all of 10":     {"00000102", prefixes("10.0.0.0/8"), "172.17.2.0/24"},
		"and of 172.16":            {"00000102", prefixes("10.0.0.0/8", "172.16.0.0/12"), "192.168.2.0/24"},
		"all in use":               {"00000000", prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"), ""},
	} {
		got, err := Subnet(c.id, c.used)
		if c.want == "" && err == nil || c.want != "" && (err != nil || got.String() != c.want) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.want)
		}
	}
}

// prefixes parses prefixes, separated by spaces.
func prefixes(text string) []netip.Prefix {
	var out []netip.Prefix
	for one := range strings.FieldsSeq(text) {
		out = append(out, netip.MustParsePrefix(one))
	}
	return out
}

func TestSubnets(t *testing.T) {
	const id, own4, own6 = "00000102", "10.65.2.0/24", "fd6b:37b5:b190::/64"
	for name, c := range map[string]struct {
		wanted, have, used string
		bridge             bool
		ipv6               IPv6State
		want, problem      string
	}{
		"first start without IPv6":               {want: own4},
		"first start, IPv6 unused":               {ipv6: IPv6Unused, want: own4},
		"first start with IPv6":                  {ipv6: IPv6Used, want: own4 + " " + own6},
		"an IPv6 route to the first choice":      {ipv6: IPv6Used, used: "fd6b::/16", want: own4 + " fd5b:90ac:3428::/64"},
		"all unique local addresses are used":    {ipv6: IPv6Used, used: "fd00::/8", problem: "every unique local /64"},
		"kept":                                   {have: "10.70.3.0/24", want: "10.70.3.0/24"},
		"kept while pods run":                    {have: "10.70.3.0/24", used: "10.70.0.0/16", bridge: true, want: "10.70.3.0/24"},
		"replaced":                               {have: "10.70.3.0/24", used: "10.70.0.0/16", want: own4},
		"IPv6 is added while pods run":           {have: "10.70.3.0/24", bridge: true, ipv6: IPv6Used, want: "10.70.3.0/24 " + own6},
		"IPv6 is kept without a route":           {have: "10.70.3.0/24 fd01::/64", ipv6: IPv6Unused, want: "10.70.3.0/24 fd01::/64"},
		"IPv6 was disabled":                      {have: "10.70.3.0/24 fd01::/64", bridge: true, want: "10.70.3.0/24"},
		"only IPv6 is kept while pods run":       {have: "fd01::/64", bridge: true, ipv6: IPv6Used, want: "fd01::/64"},
		"wanted":                                 {wanted: "10.1.0.0/16 fd02::/112", ipv6: IPv6Unused, want: "10.1.0.0/16 fd02::/112"},
		"wanted without IPv6":                    {wanted: "10.1.0.0/16", ipv6: IPv6Used, want: "10.1.0.0/16"},
		"wanted without a bridge":                {wanted: "10.1.0.0/16", have: "10.70.3.0/24", want: "10.1.0.0/16"},
		"wanted, the same while pods run":        {wanted: "10.70.3.0/24", have: "10.70.3.0/24", bridge: true, want: "10.70.3.0/24"},
		"wanted, an additional while pods run":   {wanted: "fd02::/64 10.70.3.0/24", have: "10.70.3.0/24", bridge: true, want: "fd02::/64 10.70.3.0/24"},
		"wanted, another one while pods run":     {wanted: "10.1.0.0/16", have: "10.70.3.0/24", bridge: true, problem: "the pod subnet 10.70.3.0/24 is in use"},
		"wanted, one family less while pods run": {wanted: "10.70.3.0/24", have: "10.70.3.0/24 fd01::/64", bridge: true, problem: "the pod subnet fd01::/64 is in use"},
	} {
		got, err := Subnets(SubnetInput{ID: id, Wanted: prefixes(c.wanted), Have: prefixes(c.have), Used: prefixes(c.used), BridgeExists: c.bridge, IPv6: c.ipv6})
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: %v, %v: want %q", name, got, err, c.problem)
			}
			continue
		}
		if err != nil || !slices.Equal(got, prefixes(c.want)) {
			t.Errorf("%s: %v, %v: want %s", name, got, err, c.want)
		}
	}
}

func TestNetwork(t *testing.T) {
	l := Layout{RootDir: "/r"}
	subnets := prefixes("10.70.3.0/24 fd01::/64")
	for chained, want := range map[bool][]string{true: {"bridge", "podrun-net"}, false: {"podrun-net"}} {
		data, err := Network(l, subnets, chained, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := subnetsOf(data); !slices.Equal(got, subnets) {
			t.Errorf("read back %v", got)
		}
		var c struct {
			Plugins []struct {
				Type, Bridge string
				Capabilities map[string]bool
				IPAM         struct{ DataDir string }
			}
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		var types []string
		for _, p := range c.Plugins {
			types = append(types, p.Type)
			if p.Bridge != l.Bridge() {
				t.Errorf("%+v", p)
			}
		}
		last := c.Plugins[len(c.Plugins)-1]
		if !slices.Equal(types, want) || c.Plugins[0].IPAM.DataDir != l.Addresses() || !last.Capabilities["portMappings"] || last.Capabilities["io.kubernetes.cri.pod-annotations"] == chained {
			t.Errorf("chained %t: %s", chained, data)
		}
	}
	for _, broken := range []string{"", "{", `{"plugins":[]}`, `{"plugins":[{"ipam":{"ranges":[[{"subnet":"x"}]]}}]}`} {
		if got := subnetsOf([]byte(broken)); got != nil {
			t.Errorf("%s gives %v", broken, got)
		}
	}
}

func TestPickDigest(t *testing.T) {
	third := strings.Repeat("c", 64)
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	for name, c := range map[string]struct {
		last     *Daemon
		record   *Choice
		archive  string
		unpacked func(string) bool
		want     string
	}{
		"first start":                            {nil, nil, someDigest, none, someDigest},
		"a crash changes no version":             {&Daemon{Digest: otherDigest}, &Choice{Digest: otherDigest}, someDigest, all, otherDigest},
		"a crash, the files are lost":            {&Daemon{Digest: otherDigest}, &Choice{Digest: otherDigest}, someDigest, none, someDigest},
		"a crash of the archive's, files lost":   {&Daemon{Digest: someDigest}, nil, someDigest, none, someDigest},
		"a reboot changes no version":            {nil, &Choice{Kind: Own, Digest: otherDigest}, someDigest, all, otherDigest},
		"a reboot, the files are lost":           {nil, &Choice{Kind: Own, Digest: otherDigest}, someDigest, none, someDigest},
		"another runtime's record":               {nil, &Choice{Kind: External, Digest: otherDigest}, someDigest, all, someDigest},
		"no archive, what was recorded":          {nil, &Choice{Kind: Own, Digest: otherDigest}, "", all, otherDigest},
		"no archive, a crash":                    {&Daemon{Digest: third}, &Choice{Digest: otherDigest}, "", all, third},
		"no archive, nothing unpacked":           {nil, &Choice{Digest: otherDigest}, "", none, ""},
		"no archive, recorded without a version": {nil, &Choice{}, "", all, ""},
	} {
		if got := PickDigest(c.last, c.record, c.archive, c.unpacked); got != c.want {
			t.Errorf("%s: %.3s, want %.3s", name, got, c.want)
		}
	}
}

func TestOlderContainerd(t *testing.T) {
	of := func(v string) []byte { return []byte(`{"containerd":"` + v + `","go":"go1.26.6"}`) }
	for name, c := range map[string]struct {
		before, after []byte
		want          bool
	}{
		"the same":       {of("v2.4.2"), of("v2.4.2"), false},
		"newer":          {of("v2.4.2"), of("v2.10.0"), false},
		"older":          {of("v2.10.0"), of("v2.4.2"), true},
		"a prerelease":   {of("v2.4.2"), of("v2.4.2-rc.1"), true},
		"unknown before": {[]byte("{"), of("v2.4.2"), false},
		"unknown after":  {of("v2.4.2"), []byte("{}"), false},
	} {
		if got := olderContainerd(c.before, c.after); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestParseChoice(t *testing.T) {
	for text, want := range map[string]string{
		`{"schemaVersion":1,"kind":"embedded","digest":"` + someDigest + `"}`: "",
		`{"schemaVersion":1,"kind":"external","endpoint":"unix:///a"}`:        "",
		`{"schemaVersion":1,"kind":"external"}`:                               "does not name an endpoint",
		`{"schemaVersion":1,"kind":"other"}`:                                  "unknown kind",
		`{"kind":"embedded","digest":"../../etc"}`:                            "not a digest",
		`{`: "not a record",
		``:  "not a record",
	} {
		_, err := parseChoice([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestParseSums(t *testing.T) {
	sums, err := parseSums([]byte(someDigest + "  bin/runc\n" + otherDigest + "  share/a b\n"))
	if err != nil || sums["bin/runc"] != someDigest || sums["share/a b"] != otherDigest || len(sums) != 2 {
		t.Errorf("%v, %v", sums, err)
	}
	for _, bad := range []string{"", someDigest + "  /etc/passwd\n", someDigest + "  ../x\n", someDigest + "  a//b\n", "abc  bin/runc\n", someDigest + " bin/runc\n"} {
		if sums, err := parseSums([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, sums)
		}
	}
}

func TestRootfs(t *testing.T) {
	for file, want := range map[string]bool{"initramfs": true, "switched": false, "debian": false, "empty": false} {
		data, err := os.ReadFile(filepath.Join("testdata", "mountinfo-"+file))
		if err != nil {
			t.Fatal(err)
		}
		if got := rootfsIn(string(data)); got != want {
			t.Errorf("%s: %t, want %t", file, got, want)
		}
	}
}

func TestArchiveOfAPath(t *testing.T) {
	const none = "not a program of an archive"
	for exe, want := range map[string]string{
		"/r/runtime/" + someDigest + "/bin/containerd":              someDigest,
		"/r/runtime/" + someDigest + "/bin/containerd (deleted)":    someDigest,
		"/r/runtime/" + someDigest + "/.broken/bin/x (deleted)":     someDigest,
		"/r/runtime/" + someDigest + "/.broken/.broken/bin/x":       someDigest,
		"/r/runtime/.unpack-" + someDigest + "-17.broken/bin/x":     someDigest,
		"/r/runtime/.unpack-17/.broken/bin/x (deleted)":             "",
		"/r/runtime/.unpack-17":                                     none,
		"/r/runtime/containerd/io.containerd/" + someDigest + "/sh": none,
		"/r/runtime/containerd/snapshots/7/fs/bin/sh":               none,
		"/r/runtime/containerd.damaged/snapshots/7/fs/bin/sh":       none,
		"/r/runtime/" + someDigest:                                  none,
		"/r/runtime/" + someDigest + "/cni/podrun-net":              none,
		"/other/" + someDigest + "/bin/containerd":                  none,
		"/r/runtime/short/bin/containerd":                           none,
	} {
		got, ok := archiveOf("/r/runtime", exe)
		if !ok {
			got = none
		}
		if got != want {
			t.Errorf("%s: %q, want %q", exe, got, want)
		}
	}
}

func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: dir, dir + "/": dir, dir + "/link": dir, dir + "/link/a/b": dir + "/a/b", "/": "/"} {
		if got := ReadRealPath(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestLastLines(t *testing.T) {
	for n, want := range map[int]string{-1: "a\nb\nc\n", 0: "", 1: "c\n", 2: "b\nc\n", 9: "a\nb\nc\n"} {
		if got := lastLines("a\nb\nc\n", n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	if got := lastLines("a\nb", 1); got != "b" {
		t.Errorf("without an end: %q", got)
	}
}
