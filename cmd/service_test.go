package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/serve/systemd"
	"github.com/podrun/podrun/test/ring"
)

// absentSystemd is a host without systemd; showSystemd is a systemd that returns a fixed state.
type absentSystemd struct{}

func (absentSystemd) Booted() bool { return false }

func (absentSystemd) Run(context.Context, ...string) ([]byte, error) {
	return nil, errors.New("systemctl was run")
}

type showSystemd string

func (showSystemd) Booted() bool { return true }

func (s showSystemd) Run(context.Context, ...string) ([]byte, error) { return []byte(s), nil }

// runService runs a service command with a fake systemd and no settings file.
func runService(t *testing.T, m systemd.Manager, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, talk bytes.Buffer
	a := cli.New(cli.Streams{Out: &out, Err: &talk})
	a.Systemd = m
	root := newRoot(a)
	a.Settings.Config = ""
	root.SetArgs(append([]string{"service"}, args...))
	err := root.ExecuteContext(t.Context())
	if err != nil {
		cli.PrintError(a.Streams.Err, err)
	}
	return out.String(), talk.String(), exit.Code(err)
}

func TestServiceFlags(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	for name, tc := range map[string]struct {
		args []string
		want string // expected ExecStart
	}{
		"nothing":     {nil, "/usr/bin/podrun serve"},
		"directories": {[]string{"manifests", "/m"}, "/usr/bin/podrun serve " + work + "/manifests /m"},
		"relative paths": {[]string{"--config", "edge.yaml", "--root-dir=data"},
			"/usr/bin/podrun serve --config=" + work + "/edge.yaml --root-dir=" + work + "/data"},
		"no resolv.conf": {[]string{"--resolv-conf="}, "/usr/bin/podrun serve --resolv-conf="},
		"lists": {[]string{"--node-ip", "192.0.2.1,2001:db8::1", "--node-labels", "a=b", "--device", "e.x/a=e.x/g=0", "--device", "e.x/a=e.x/g=1", "-v", "--preempt=false"},
			"/usr/bin/podrun serve --device=e.x/a=e.x/g=0,e.x/a=e.x/g=1 --node-ip=192.0.2.1,2001:db8::1 --node-labels=a=b --preempt=false --verbose=true"},
		"thresholds": {[]string{"--eviction-hard", "nodefs.available<10%,memory.available<1Mi"},
			`/usr/bin/podrun serve "--eviction-hard=memory.available<1Mi,nodefs.available<10%%"`},
	} {
		t.Run(name, func(t *testing.T) {
			must := os.WriteFile(filepath.Join(work, "edge.yaml"), []byte(sample), 0o600)
			out, talk, code := runService(t, absentSystemd{}, append([]string{"install", "--print", "--binary", "/usr/bin/podrun"}, tc.args...)...)
			if must != nil || code != exit.OK || talk != "" {
				t.Fatalf("code %d, %v: %s", code, must, talk)
			}
			_, rest, _ := strings.Cut(out, "\nExecStart=")
			got, _, _ := strings.Cut(rest, "\n")
			const periods = " --shutdown-grace-period=30s --shutdown-grace-period-critical-pods=10s"
			if !strings.Contains(got, periods) {
				t.Errorf("no periods in %s", got)
			}
			if diff := cmp.Diff(tc.want, strings.Replace(got, periods, "", 1)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestServiceFlagsAreRead: flags in the unit have the same effect as on the command line.
func TestServiceFlagsAreRead(t *testing.T) {
	given := []string{"--node-labels", "a=b,c=d e", "--node-ip", "192.0.2.1,2001:db8::1", "--device", "e.x/a=e.x/g=0,e.x/a=e.x/g=1",
		"--eviction-hard", "nodefs.available<10%", "--register-with-taints", "a=b:NoExecute", "--max-pods=3", "--pull-timeout=90s", "--resolv-conf="}
	first, err := settingsOf(t, "", given...)
	if err != nil {
		t.Fatal(err)
	}
	second, err := settingsOf(t, "", config.Arguments(first.Settings.Given)...)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := first.Settings.Settings()
	got, _, _ := second.Settings.Settings()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestServiceErrors(t *testing.T) {
	ring.RequireRoot(t)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"install without systemd":   {[]string{"install"}, exit.Runtime, "podrun: podrun.service: systemd is not running on this host\nhint: run 'podrun serve' under another supervisor\n"},
		"uninstall without systemd": {[]string{"uninstall"}, exit.Runtime, "podrun: podrun.service: systemd is not running on this host\n"},
		"status without systemd":    {[]string{"status", "-o", "json"}, exit.Runtime, "podrun: podrun.service: systemd is not running on this host\n"},
		"a relative binary":         {[]string{"install", "--print", "--binary", "podrun"}, exit.Usage, `podrun: binary "podrun": systemd requires an absolute path`},
		"a prefix and --now":        {[]string{"install", "--now", "--prefix", "/none"}, exit.Usage, "podrun: --now starts the service on this host"},
		"a prefix that is missing":  {[]string{"install", "--prefix", "/podrun-none"}, exit.Runtime, "podrun: podrun.service: create the manifest directory: open /podrun-none"},
		"an unknown command":        {[]string{"enable"}, exit.Usage, `podrun: "enable" is not a command of podrun service`},
	} {
		t.Run(name, func(t *testing.T) {
			out, talk, code := runService(t, absentSystemd{}, tc.args...)
			if code != tc.code || !strings.HasPrefix(talk, tc.want) || out != "" {
				t.Errorf("code %d, %q, %q; want %d, %q", code, out, talk, tc.code, tc.want)
			}
		})
	}
}

func TestServiceStatus(t *testing.T) {
	m := showSystemd("LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=7\nStatusText=\x1b[2J1 pod\n")
	out, _, code := runService(t, m, "status")
	if want := "podrun.service: active (running)\n  process    7\n  status     ^[[2J1 pod\n"; out != want || code != exit.OK {
		t.Errorf("code %d, %q", code, out)
	}
	out, _, _ = runService(t, m, "status", "-o", "json")
	var state systemd.State
	if err := json.Unmarshal([]byte(out), &state); err != nil || state.MainPID != 7 || state.Active != "active" {
		t.Errorf("%+v, %v: %s", state, err, out)
	}
}

// TestServiceWarnsOfEnvironment checks that podrun warns about variables of this command,
// because the service does not inherit them.
func TestServiceWarnsOfEnvironment(t *testing.T) {
	t.Setenv("PODRUN_ROOT_DIR", "/data")
	t.Setenv("PODRUN_NAMESPACE", "")
	t.Setenv("PODRUN_CONFIG", "")
	_, talk, code := runService(t, absentSystemd{}, "install", "--prefix", t.TempDir(), "--root-dir", "/flag")
	if code != exit.OK || strings.Contains(talk, "ROOT_DIR") {
		t.Errorf("code %d, %q", code, talk)
	}
	_, talk, code = runService(t, absentSystemd{}, "install", "--prefix", t.TempDir())
	if want := "warning: PODRUN_ROOT_DIR: podrun.service does not inherit this variable (use --root-dir or the settings file)\n"; code != exit.OK || !strings.HasSuffix(talk, want) {
		t.Errorf("code %d, %q, want %q", code, talk, want)
	}
}

// TestPackagedUnit compares the unit and the drop-in of the packages with the output of 'podrun
// service install' with the packages' settings file. Only the first line differs, which names
// the program that wrote the file.
func TestPackagedUnit(t *testing.T) {
	const dir = "../hack/package/"
	written := func(args ...string) string {
		var out, talk bytes.Buffer
		a := cli.New(cli.Streams{Out: &out, Err: &talk})
		a.Systemd = absentSystemd{}
		root := newRoot(a)
		a.Settings.Config = dir + "config.yaml"
		root.SetArgs(append([]string{"service", "install", "--binary", "/usr/bin/podrun"}, args...))
		if err := root.ExecuteContext(t.Context()); err != nil || talk.Len() > 0 {
			t.Fatalf("%v: %s", err, talk.String())
		}
		return out.String()
	}
	body := func(text, begin string) string {
		_, rest, found := strings.Cut(text, begin)
		if !found {
			t.Fatalf("%q lacks %q", text, begin)
		}
		return rest
	}
	unit := written("--print")
	if diff := cmp.Diff(body(unit, "\n[Unit]\n"), body(readPage(t, dir+"podrun.service"), "\n[Unit]\n")); diff != "" {
		t.Errorf("podrun.service (-written +packaged):\n%s", diff)
	}
	// podrun-node.service runs another program with the same restrictions.
	node := regexp.MustCompile(`(?m)^Environment=KUBECONFIG=.*\n`).ReplaceAllString(readPage(t, dir+"node/podrun-node.service"), "")
	node = regexp.MustCompile(`(?m)^ExecStart=/usr/bin/podrun-node .*`).ReplaceAllString(node, "ExecStart=/usr/bin/podrun serve")
	if diff := cmp.Diff(body(unit, "\n[Service]\n"), body(node, "\n[Service]\n")); diff != "" {
		t.Errorf("podrun-node.service (-podrun.service +podrun-node.service):\n%s", diff)
	}
	prefix := t.TempDir()
	written("--prefix", prefix)
	if diff := cmp.Diff(body(readPage(t, prefix+systemd.DelayPath), "\n"), body(readPage(t, dir+"logind.conf"), "\n")); diff != "" {
		t.Errorf("the drop-in (-written +packaged):\n%s", diff)
	}
}
