package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/host/nodeconfig"
)

// sample is a settings file with a value for each case.
const sample = `apiVersion: podrun.dev/v1alpha1
kind: PodrunConfiguration
namespace: file
rootDir: /file
verbose: true
`

// commandSettings runs a command that only reads the settings, with the default file at the
// given path.
func settingsOf(t *testing.T, defaultFile string, given ...string) (*cli.App, error) {
	t.Helper()
	var out bytes.Buffer
	a := cli.New(cli.Streams{Out: &out, Err: &out})
	root := newRoot(a)
	a.Settings.Config = defaultFile
	root.AddCommand(&cobra.Command{Use: "nothing", RunE: func(*cobra.Command, []string) error { return nil }})
	root.SetArgs(append([]string{"nothing"}, given...))
	return a, root.ExecuteContext(t.Context())
}

func TestSettingsPrecedence(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "other.yaml")
	for path, text := range map[string]string{file: sample, other: "apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nnamespace: other\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(dir, "none", "config.yaml")
	type got struct {
		Namespace, RootDir string
		Verbose            bool
	}
	plain := got{"", "/var/lib/podrun", false}
	for name, tc := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want got
	}{
		"the default file is read":             {file: file, want: got{"file", "/file", true}},
		"without it the defaults hold":         {file: missing, want: plain},
		"environment over file":                {file: file, env: map[string]string{"PODRUN_NAMESPACE": "env", "PODRUN_ROOT_DIR": "/env"}, want: got{"env", "/env", true}},
		"flags over environment":               {file: file, env: map[string]string{"PODRUN_NAMESPACE": "env"}, args: []string{"-n", "flag", "--verbose=false"}, want: got{"flag", "/file", false}},
		"--config instead of the default file": {file: file, args: []string{"--config", other}, want: got{"other", "/var/lib/podrun", false}},
		"PODRUN_CONFIG instead of it":          {file: file, env: map[string]string{"PODRUN_CONFIG": other}, want: got{"other", "/var/lib/podrun", false}},
		"--config over PODRUN_CONFIG":          {file: missing, env: map[string]string{"PODRUN_CONFIG": other}, args: []string{"--config", file}, want: got{"file", "/file", true}},
		"an empty PODRUN_CONFIG is no file":    {file: file, env: map[string]string{"PODRUN_CONFIG": ""}, want: plain},
		"an empty --config is no file":         {file: file, args: []string{"--config="}, want: plain},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			a, err := settingsOf(t, tc.file, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			s, _, err := a.Settings.Settings()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got{a.Namespace, s.RootDir, a.Verbose}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOneRuntime checks that --runtime and --container-runtime-endpoint set the same thing.
func TestOneRuntime(t *testing.T) {
	const a, b = "unix:///run/a.sock", "unix:///run/b.sock"
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubelet := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: " + a + "\n"
	embedded := "apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nruntime: embedded\n"
	none, byEndpoint, byRuntime, both := filepath.Join(dir, "none"), file("endpoint", kubelet), file("runtime", embedded), file("both", kubelet+"---\n"+embedded)
	type got struct{ Runtime, Endpoint string }
	for name, tc := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want got
		err  bool
	}{
		"nothing":                          {file: none},
		"a socket by --runtime":            {file: none, args: []string{"--runtime", a}, want: got{"", a}},
		"embedded":                         {file: none, args: []string{"--runtime=embedded"}, want: got{"embedded", ""}},
		"both, the same":                   {file: none, args: []string{"--runtime", a, "--container-runtime-endpoint", a}, want: got{"", a}},
		"both, different":                  {file: none, args: []string{"--runtime", a, "--container-runtime-endpoint", b}, err: true},
		"both of the environment":          {file: none, env: map[string]string{"PODRUN_RUNTIME": "embedded", "PODRUN_CONTAINER_RUNTIME_ENDPOINT": a}, err: true},
		"both of files":                    {file: both, err: true},
		"a flag over the environment":      {file: none, env: map[string]string{"PODRUN_CONTAINER_RUNTIME_ENDPOINT": a}, args: []string{"--runtime=embedded"}, want: got{"embedded", ""}},
		"the environment over a file":      {file: byRuntime, env: map[string]string{"PODRUN_CONTAINER_RUNTIME_ENDPOINT": a}, want: got{"", a}},
		"a file":                           {file: byRuntime, want: got{"embedded", ""}},
		"auto over a file":                 {file: byEndpoint, args: []string{"--runtime=auto"}, want: got{"auto", ""}},
		"an empty variable is none":        {file: byEndpoint, env: map[string]string{"PODRUN_RUNTIME": ""}, want: got{"", a}},
		"crictl's variable":                {file: none, env: map[string]string{"CONTAINER_RUNTIME_ENDPOINT": b}, want: got{"", b}},
		"crictl's variable beside a file":  {file: byRuntime, env: map[string]string{"CONTAINER_RUNTIME_ENDPOINT": b}, want: got{"embedded", ""}},
		"crictl's variable beside another": {file: byEndpoint, env: map[string]string{"CONTAINER_RUNTIME_ENDPOINT": b}, want: got{"", a}},
		"no value":                         {file: none, args: []string{"--runtime=containerd"}, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			app, err := settingsOf(t, tc.file, tc.args...)
			if tc.err || err != nil {
				if !tc.err || exit.Code(err) != exit.Usage {
					t.Fatalf("error %v, want one: %t", err, tc.err)
				}
				return
			}
			s, _, err := app.Settings.Settings()
			if diff := cmp.Diff(tc.want, got{s.Runtime, s.ContainerRuntimeEndpoint}); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// TestSettingsFileUnreadable covers a settings file that exists but is unreadable. Every
// command that needs settings must report an error with the file's name, and no other command
// may.
func TestSettingsFileUnreadable(t *testing.T) {
	// a directory, because root can read any file
	dir := t.TempDir()
	_, err := settingsOf(t, dir)
	if code := exit.Code(err); code != exit.Usage {
		t.Errorf("exit code %d, want %d", code, exit.Usage)
	}
	if want := "settings: read " + dir + ": is a directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	missing := filepath.Join(dir, "none.yaml")
	if _, err := settingsOf(t, "", "--config", missing); err == nil || err.Error() != "--config: read "+missing+": no such file or directory" {
		t.Errorf("a missing file of --config: %v", err)
	}
	for _, name := range withoutSettings {
		var out bytes.Buffer
		a := cli.New(cli.Streams{Out: &out, Err: &out})
		root := newRoot(a)
		a.Settings.Config = dir
		args := map[string][]string{"version": {"--client"}, "completion": {"bash"}, "explain": {"pod"}, cobra.ShellCompRequestCmd: {"get"}, cobra.ShellCompNoDescRequestCmd: {"get"}}
		root.SetArgs(append([]string{name}, args[name]...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSettingsReload checks that a reload applies the file's new content, and that a failed
// reload leaves the settings unchanged.
func TestSettingsReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(sample)
	a, err := settingsOf(t, file)
	if err != nil {
		t.Fatal(err)
	}
	write(sample + "podSecurity: baseline\n")
	if s, _, err := a.Settings.Reload(); err != nil || s.PodSecurity != "baseline" {
		t.Errorf("reloaded: %q, %v", s.PodSecurity, err)
	}
	write(sample + "podSecurity: other\n")
	if _, _, err := a.Settings.Reload(); err == nil {
		t.Error("a wrong file was reloaded")
	}
	if s, _, err := a.Settings.Settings(); err != nil || s.PodSecurity != "baseline" {
		t.Errorf("after a reload that failed: %q, %v", s.PodSecurity, err)
	}
}

// ofOneCommand lists the global flags that have no field in the file, because they specify the
// path of the file or concern the output of a single command.
var ofOneCommand = []string{"config", "trace"}

// TestFlagsHaveFields checks that each global flag changes a setting, so that a file can
// set everything that the command line can.
func TestFlagsHaveFields(t *testing.T) {
	a := cli.New(cli.Streams{})
	root := newRoot(a)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(ofOneCommand, f.Name) && a.Settings.Into[f.Name] == nil {
			t.Errorf("--%s is not in the settings: give it a field of %T", f.Name, nodeconfig.PodrunConfiguration{})
		}
	})
}
