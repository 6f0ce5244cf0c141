package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// needed contains the capabilities that podrun or its child processes use, with the reasons.
var needed = map[string]string{
	"CAP_SYS_ADMIN":        "mounts, network namespaces",
	"CAP_CHOWN":            "fsGroup",
	"CAP_DAC_OVERRIDE":     "volumes of other users",
	"CAP_DAC_READ_SEARCH":  "volumes of other users",
	"CAP_FOWNER":           "modes of volumes of other users",
	"CAP_FSETID":           "the setgid bit of volumes with fsGroup",
	"CAP_KILL":             "processes of containers",
	"CAP_NET_ADMIN":        "firewall rules of removed networks",
	"CAP_NET_RAW":          "iptables",
	"CAP_NET_BIND_SERVICE": "mount.nfs uses reserved ports",
	"CAP_SYS_PTRACE":       "network namespaces of processes of other users",
	"CAP_SYS_RESOURCE":     "OOM scores, limits",
	"CAP_SETUID":           "mount helpers and credential plugins may drop privileges",
	"CAP_SETGID":           "mount helpers and credential plugins may drop privileges",
	"CAP_SETPCAP":          "mount helpers and credential plugins may drop privileges",
}

// TestUnitRestrictions checks that the unit forbids what podrun does not need, and permits what
// podrun needs.
func TestUnitRestrictions(t *testing.T) {
	options := map[string][]string{}
	for _, m := range option.FindAllStringSubmatch(unit(t, UnitOptions{}), -1) {
		options[m[1]] = append(options[m[1]], m[2])
	}
	var dropped []string
	for _, line := range options["CapabilityBoundingSet"] {
		list, ok := strings.CutPrefix(line, "~")
		if !ok {
			t.Errorf("CapabilityBoundingSet=%s is not a list of what is dropped", line)
		}
		dropped = append(dropped, strings.Fields(list)...)
	}
	for _, name := range []string{"CAP_SYS_MODULE", "CAP_SYS_BOOT", "CAP_SYS_TIME", "CAP_SYS_RAWIO"} {
		if !slices.Contains(dropped, name) {
			t.Errorf("%s is kept", name)
		}
	}
	for _, name := range dropped {
		if why := needed[name]; why != "" {
			t.Errorf("%s is dropped: %s", name, why)
		}
	}
	filter, families := strings.Join(options["SystemCallFilter"], " "), strings.Fields(strings.Join(options["RestrictAddressFamilies"], " "))
	for _, group := range []string{"@module", "@reboot", "@clock", "@raw-io", "@swap", "@debug"} {
		if !strings.HasPrefix(filter, "~") || !strings.Contains(filter, group) {
			t.Errorf("SystemCallFilter=%s permits %s", filter, group)
		}
	}
	for _, group := range []string{"@mount", "@privileged", "@chown", "@setuid", "@network-io", "@process"} {
		if strings.Contains(filter, group) {
			t.Errorf("SystemCallFilter=%s refuses %s", filter, group)
		}
	}
	if want := []string{"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}; !slices.Equal(families, want) {
		t.Errorf("RestrictAddressFamilies=%q, want %q", families, want)
	}
	for name, want := range map[string]string{"UMask": "0077", "SystemCallErrorNumber": "EPERM", "SystemCallArchitectures": "native", "RestrictNamespaces": "net",
		"RestrictRealtime": "yes", "LockPersonality": "yes", "DevicePolicy": "closed"} {
		if got := options[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
}

// goal is the maximum exposure level, on a scale to 10, that systemd may calculate for the
// unit.
const goal = "6.0"

// TestUnitExposure checks the exposure level that systemd calculates for the unit.
func TestUnitExposure(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	file := filepath.Join(t.TempDir(), UnitName)
	if err := os.WriteFile(file, []byte(unit(t, UnitOptions{})), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=60", file).CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skip("this systemd-analyze has no option --offline, which systemd 250 has")
	}
	m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("more than %s: %v\n%s", goal, err, out)
	}
	t.Logf("exposure level %s", m[1])
}
