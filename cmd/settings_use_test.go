package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/test/ring"
)

// valid and broken are contents of a settings file.
const (
	valid  = "apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nrootDir: /srv/podrun\npodSecurity: restricted\n"
	broken = "apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nrootDir: /srv/podrun\npodSecurity: [\n"
)

// TestBrokenSettings is the decision table of a settings file that cannot be used: the class of the command, the state
// of the file, and whether the last valid settings are stored.
func TestBrokenSettings(t *testing.T) {
	type got struct {
		Root, Security string
		Warned, Failed bool
	}
	var (
		inFile   = got{Root: "/srv/podrun", Security: "restricted"}
		stored   = got{Root: "/srv/last", Security: "baseline", Warned: true}
		defaults = got{Root: "/var/lib/podrun", Security: "privileged"}
		withDoc  = got{Root: "/var/lib/podrun", Security: "privileged", Warned: true}
		refused  = got{Failed: true}
	)
	states := []string{"valid", "absent", "broken", "unreadable", "of --config, absent"}
	for name, tc := range map[string]struct {
		use    config.Use
		stored bool
		want   []got // in the order of states
	}{
		"changes":            {use: config.Changes, want: []got{inFile, defaults, refused, refused, refused}},
		"changes, stored":    {use: config.Changes, stored: true, want: []got{inFile, defaults, refused, refused, refused}},
		"reads":              {use: config.Reads, want: []got{inFile, defaults, refused, refused, refused}},
		"reads, stored":      {use: config.Reads, stored: true, want: []got{inFile, defaults, stored, stored, stored}},
		"diagnoses":          {use: config.Diagnoses, want: []got{inFile, defaults, withDoc, withDoc, withDoc}},
		"diagnoses, stored":  {use: config.Diagnoses, stored: true, want: []got{inFile, defaults, stored, stored, stored}},
		"supervises":         {use: config.Supervises, want: []got{inFile, defaults, refused, refused, refused}},
		"supervises, stored": {use: config.Supervises, stored: true, want: []got{inFile, defaults, stored, stored, stored}},
	} {
		for i, state := range states {
			t.Run(name+"/"+state, func(t *testing.T) {
				dir := t.TempDir()
				f := newSettings(t, cli.New(cli.Streams{}), dir)
				f.For = tc.use
				switch state {
				case "valid":
					writeFile(t, f.Config, valid)
				case "broken":
					writeFile(t, f.Config, broken)
				case "unreadable":
					if err := os.Mkdir(f.Config, 0o700); err != nil {
						t.Fatal(err)
					}
				case "of --config, absent":
					f.Set.Lookup("config").Changed = true
				}
				if tc.stored {
					c := nodeconfig.CopyOf(f.Copies, f.Config)
					if err := os.MkdirAll(f.Copies, 0o700); err != nil {
						t.Fatal(err)
					}
					writeFile(t, c.Path, strings.NewReplacer("/srv/podrun", "/srv/last", "restricted", "baseline").Replace(valid))
				}
				s, notes, err := f.Settings()
				if err != nil && exit.Code(err) != exit.Usage {
					t.Errorf("exit code %d: %v", exit.Code(err), err)
				}
				out := got{Failed: err != nil}
				if err == nil {
					out = got{Root: s.RootDir, Security: s.PodSecurity, Warned: len(notes) > 0}
				}
				if diff := cmp.Diff(tc.want[i], out); diff != "" {
					t.Error(diff)
				}
				if len(notes.Errors()) > 0 {
					t.Errorf("not a warning: %s", notes.Errors())
				}
			})
		}
	}
}

// newSettings returns settings whose default file and copies are in a directory.
func newSettings(t *testing.T, a *cli.App, dir string) *config.Flags {
	t.Helper()
	newRoot(a)
	f := a.Settings
	f.Ctx, f.Config, f.Copies = t.Context(), filepath.Join(dir, "config.yaml"), filepath.Join(dir, "copies")
	return f
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSettingsUse checks the class of each command that uses something if the settings file cannot be used; all other
// commands fail.
func TestSettingsUse(t *testing.T) {
	got := map[config.Use][]string{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if c.HasParent() && c.Runnable() && !slices.Contains(withoutSettings, strings.Fields(path)[0]) {
			got[config.UseOf(c)] = append(got[config.UseOf(c)], path)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	a := cli.New(cli.Streams{Out: io.Discard, Err: io.Discard})
	root := newRoot(a)
	walk(root)
	want := map[config.Use]string{
		config.Reads: "attach cp describe diff events exec get logs plan port-forward top wait image_ls rollout_history rollout_status runtime_logs runtime_status", config.Diagnoses: "doctor", config.Supervises: "serve",
	}
	for use, names := range want {
		paths := strings.Fields(names)
		for i := range paths {
			paths[i] = strings.ReplaceAll(paths[i], "_", " ")
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(paths)), slices.Sorted(slices.Values(got[use]))); diff != "" {
			t.Errorf("class %d: %s", use, diff)
		}
	}
	if node := newNode(&cli.App{Joiner: canceledJoiner{}, Settings: a.Settings}); config.UseOf(node) != config.Supervises {
		t.Error("podrun-node does not supervise")
	}
}

// TestSettingsKept checks when podrun stores the content of a settings file.
func TestSettingsKept(t *testing.T) {
	ring.RequireRoot(t)
	for name, tc := range map[string]struct {
		use   config.Use
		text  string // of the file; "" for none
		named bool   // by --config
		want  string
	}{
		"a change":                 {use: config.Changes, text: valid, want: valid},
		"a change, another file":   {use: config.Changes, text: valid, named: true, want: "old"},
		"a supervisor":             {use: config.Supervises, text: valid, want: valid},
		"a supervisor, --config":   {use: config.Supervises, text: valid, named: true, want: valid},
		"the file is deleted":      {use: config.Changes},
		"a supervisor, not usable": {use: config.Supervises, text: broken, want: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSettings(t, cli.New(cli.Streams{}), t.TempDir())
			f.For, f.Set.Lookup("config").Changed = tc.use, tc.named
			if tc.text != "" {
				writeFile(t, f.Config, tc.text)
			}
			if err := os.Mkdir(f.Copies, 0o700); err != nil {
				t.Fatal(err)
			}
			c := nodeconfig.CopyOf(f.Copies, f.Config)
			writeFile(t, c.Path, "old")
			_, _, err := f.Reload()
			if err == nil {
				err = f.Keep()
			} else if tc.text == broken {
				err = nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(c.Read(t.Context())); got != tc.want {
				t.Errorf("stored %q", got)
			}
			if info, err := os.Stat(c.Path); tc.want == valid && (err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestServeWithBrokenSettings: serve starts with the last valid settings, and /readyz reports this until a reload has
// read a valid file. Doctor fails because of the file; without stored settings, it uses the defaults.
func TestServeWithBrokenSettings(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	stop, err := critest.ForTest(t).Serve(filepath.Join(dir, "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	file, copies, socket := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "copies"), filepath.Join(dir, "api.sock")
	execute := func(ctx context.Context, out io.Writer, args ...string) error {
		a := cli.New(cli.Streams{Out: out, Err: out})
		root := newRootFor(a, args)
		a.Settings.Copies = copies
		root.SetArgs(append(args, "--config="+file, "--container-runtime-endpoint=unix://"+dir+"/cri.sock", "--allow-kubelet"))
		return root.ExecuteContext(ctx)
	}
	writeFile(t, file, broken)
	var said bytes.Buffer
	if err := execute(t.Context(), &said, "doctor", "-q"); exit.Code(err) != exit.Refused || !strings.Contains(said.String(), "doctor uses the default settings") {
		t.Errorf("doctor: %v\n%s", err, said.String())
	}
	if err := os.Mkdir(copies, 0o700); err != nil {
		t.Fatal(err)
	}
	good := strings.ReplaceAll(valid, "/srv/podrun", dir+"/root")
	writeFile(t, nodeconfig.CopyOf(copies, file).Path, good)

	ctx, end := context.WithCancel(t.Context())
	served, log := make(chan error, 1), &lockedBuffer{}
	go func() {
		err := execute(ctx, log, "serve", dir, "--api-socket="+socket, "--eviction-hard=", "--pod-logs-dir="+dir+"/logs", "--container-logs-dir="+dir+"/links")
		if err != nil {
			fmt.Fprintln(log, err)
		}
		served <- err
	}()
	defer func() {
		if end(); t.Failed() {
			t.Log(log)
		}
	}()
	const reason = "[-]settings failed: "
	until(t, "/readyz reports the file", func() bool {
		code, body := readAPI(socket, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, reason)
	})
	if _, err := os.Stat(filepath.Join(dir, "root", "serve")); err != nil {
		t.Error(err)
	}
	writeFile(t, file, good)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "serve uses the file", func() bool {
		_, body := readAPI(socket, "/readyz?verbose")
		return strings.Contains(body, "[+]") && !strings.Contains(body, reason)
	})
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
