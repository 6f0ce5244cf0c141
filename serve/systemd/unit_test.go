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

// mountNamespace lists the options that give a service its own mount namespace
// (systemd.exec(5), systemd 257). With one of them, the runtime would not see the volumes that
// podrun mounts. * stands for every option with this prefix.
var mountNamespace = []string{
	"BindPaths", "BindReadOnlyPaths", "BindLogSockets", "DynamicUser", "ExecPaths", "ExtensionDirectories", "ExtensionImages", "ImportCredential",
	"InaccessiblePaths", "LoadCredential*", "LogNamespace", "MountAPIVFS", "MountFlags", "MountImages", "NetworkNamespacePath", "NoExecPaths",
	"PrivateBPF", "PrivateDevices", "PrivateIPC", "PrivateMounts", "PrivateNetwork", "PrivatePIDs", "PrivateTmp", "PrivateUsers", "ProcSubset",
	"ProtectClock", "ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables",
	"ProtectProc", "ProtectSystem", "ReadOnlyPaths", "ReadWritePaths", "RootDirectory*", "RootImage*", "RootEphemeral", "SetCredential*",
	"TemporaryFileSystem",
}

// harmful lists other options with which podrun cannot work, with the reason.
var harmful = map[string]string{
	"RestrictSUIDSGID":       "volumes of a pod with fsGroup have the setgid bit",
	"NoNewPrivileges":        "mount helpers change their SELinux domain",
	"MemoryDenyWriteExecute": "credential plugins may have a JIT compiler",
	"User":                   "podrun runs as root",
	"RuntimeDirectory":       "systemd would remove it with the service",
	"Delegate":               "podrun has no control groups in its unit's",
	"Wants":                  "a runtime that is disabled stays so",
	"Requires":               "podrun waits for the runtime itself",
	"BindsTo":                "podrun outlives the runtime's restarts",
	"PartOf":                 "podrun outlives the runtime's restarts",
}

var option = regexp.MustCompile(`(?m)^([A-Za-z]+)=(.*)$`)

func unit(t *testing.T, o UnitOptions) string {
	t.Helper()
	if o.Binary == "" {
		o.Binary = "/usr/local/bin/podrun"
	}
	text, err := Unit(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUnitOptions(t *testing.T) {
	text := unit(t, UnitOptions{})
	options := map[string][]string{}
	for _, m := range option.FindAllStringSubmatch(text, -1) {
		options[m[1]] = append(options[m[1]], m[2])
	}
	for name := range options {
		if slices.ContainsFunc(mountNamespace, func(pattern string) bool {
			prefix, wild := strings.CutSuffix(pattern, "*")
			return name == pattern || wild && strings.HasPrefix(name, prefix)
		}) {
			t.Errorf("%s= gives the service a mount namespace", name)
		}
		if why := harmful[name]; why != "" {
			t.Errorf("%s=: %s", name, why)
		}
	}
	for name, want := range map[string]string{
		"Environment": "HOME=/root", "Type": "notify", "NotifyAccess": "main", "ExecStart": "/usr/local/bin/podrun serve", "ExecReload": "/usr/local/bin/podrun serve reload --pid=${MAINPID}",
		"Restart": "always", "RestartSec": "2", "StartLimitIntervalSec": "0", "KillMode": "process", "WatchdogSec": "60", "TimeoutStartSec": "90",
		"OOMScoreAdjust": "-999", "LimitNOFILE": "1048576", "TasksMax": "infinity", "WantedBy": "multi-user.target",
		"After": "local-fs.target network.target containerd.service crio.service", "SuccessExitStatus": "130 143",
	} {
		if got := options[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if strings.Contains(text, "network-online") {
		t.Error("pods would wait for a network")
	}
	if !written([]byte(text)) || written([]byte("[Unit]\n")) || written([]byte(marker+"x\n")) {
		t.Error("the mark of podrun's units is not recognized")
	}
}

func TestUnitCommand(t *testing.T) {
	for _, tc := range []struct {
		o    UnitOptions
		want string
	}{
		{UnitOptions{Sources: []string{"/etc/podrun/manifests", "/run/m"}}, "serve /etc/podrun/manifests /run/m"},
		{UnitOptions{Flags: []string{"--config=/etc/podrun/edge.yaml", "-v"}, Sources: []string{"/m"}}, "serve --config=/etc/podrun/edge.yaml -v /m"},
		{UnitOptions{Sources: []string{"/a b"}}, `serve "/a b"`},
		{UnitOptions{Sources: []string{"/100%/$HOME/${X}"}}, `serve "/100%%/$$HOME/$${X}"`},
		{UnitOptions{Sources: []string{`/a\b"c'd`}}, `serve "/a\\b\"c'd"`},
		{UnitOptions{Sources: []string{"/ünï"}}, `serve "/ünï"`},
		{UnitOptions{Flags: []string{"", ";", "--eviction-hard=a<1%"}}, `serve "" ";" "--eviction-hard=a<1%%"`},
		{UnitOptions{Sources: []string{"https://pods.example/site-1.yaml?a=%20&b=$c", "/m"}}, `serve "https://pods.example/site-1.yaml?a=%%20&b=$$c" /m`},
		{UnitOptions{Binary: "/opt/my tools/100%/podrun"}, "serve"},
	} {
		m := regexp.MustCompile(`(?m)^ExecStart=("[^"]*"|\S+) (.*)$`).FindStringSubmatch(unit(t, tc.o))
		if m == nil || m[2] != tc.want {
			t.Errorf("%+v: got %q, want %s", tc.o, m, tc.want)
		}
	}
	for name, o := range map[string]UnitOptions{
		"no binary":       {},
		"relative binary": {Binary: "bin/podrun"},
		"dollar":          {Binary: "/opt/$x/podrun"},
		"quote":           {Binary: `/opt/"x/podrun`},
		"backslash":       {Binary: `/opt/\x/podrun`},
		"relative":        {Binary: "/p", Sources: []string{"m"}},
		"http":            {Binary: "/p", Sources: []string{"http://pods.example/site-1.yaml"}},
		"newline":         {Binary: "/p", Sources: []string{"/m\nExecStartPre=/bin/sh"}},
		"NUL":             {Binary: "/p", Sources: []string{"/m\x00"}},
		"not UTF-8":       {Binary: "/p", Sources: []string{"/\xff"}},
		"long":            {Binary: "/p", Sources: []string{"/" + strings.Repeat("a", 4096)}},
		"many":            {Binary: "/p", Flags: make([]string, 300)},
	} {
		if text, err := Unit(o); err == nil {
			t.Errorf("%s: no error, but\n%s", name, text)
		}
	}
}

// TestUnitVerify checks, with systemd-analyze, a unit that contains every character that requires
// quoting.
func TestUnitVerify(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := filepath.Join(t.TempDir(), "a b%c;ü")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary, file := filepath.Join(dir, "podrun"), filepath.Join(t.TempDir(), UnitName)
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := unit(t, UnitOptions{Binary: binary, Sources: []string{dir, `/$x/"d'e\f`}, Flags: []string{";", "--eviction-hard=a<1%"}})
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(analyze, "verify", "--man=no", file)
	out, err := c.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, UnitName) {
			t.Errorf("%s", line)
		}
	}
	if err != nil {
		// The messages may be about other units of this host.
		t.Logf("systemd-analyze verify: %v\n%s", err, out)
	}
}
