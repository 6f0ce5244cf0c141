package systemd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/problem"
)

// fakeManager is a Manager that records the calls of systemctl.
type fakeManager struct {
	down   bool
	calls  []string
	fail   string // prefix of the call that fails
	output string
}

func (f *fakeManager) Booted() bool { return !f.down }

func (f *fakeManager) Run(_ context.Context, args ...string) ([]byte, error) {
	call := strings.Join(args, " ")
	f.calls = append(f.calls, call)
	if f.fail != "" && strings.HasPrefix(call, f.fail) {
		return nil, errors.New("systemctl " + call + ": exit status 1: the bus is full")
	}
	return []byte(f.output), nil
}

func newService(t *testing.T) (Service, *fakeManager) {
	t.Helper()
	m := &fakeManager{}
	return Service{Prefix: t.TempDir(), Manager: m}, m
}

func (s Service) read(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(s.path(UnitPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func (s Service) write(t *testing.T, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(s.path(UnitPath)), 0o755))
	must(t, os.WriteFile(s.path(UnitPath), []byte(text), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestInstall(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	s, m := newService(t)
	text := unit(t, UnitOptions{})
	options := InstallOptions{Unit: []byte(text), Dirs: []string{"/etc/podrun/manifests"}}
	must(t, s.Install(t.Context(), options))
	if got := s.read(t); got != text {
		t.Errorf("the unit is\n%s", got)
	}
	for name, mode := range map[string]fs.FileMode{UnitPath: 0o644, "/etc/podrun/manifests": fs.ModeDir | 0o750} {
		if info, err := os.Stat(s.path(name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want mode %v", name, info, err, mode)
		}
	}
	if diff := cmp.Diff([]string{"daemon-reload", "enable podrun.service"}, m.calls); diff != "" {
		t.Error(diff)
	}

	// A second Install, with another unit, must keep the mode of the directory that the
	// administrator has set.
	must(t, os.Chmod(s.path("/etc/podrun/manifests"), 0o700))
	m.calls, options.Now, options.Unit = nil, true, []byte(unit(t, UnitOptions{Flags: []string{"-v"}}))
	must(t, s.Install(t.Context(), options))
	if s.read(t) != string(options.Unit) {
		t.Error("the unit was not replaced")
	}
	if info, err := os.Stat(s.path("/etc/podrun/manifests")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of manifests: %v, %v", info, err)
	}
	if diff := cmp.Diff([]string{"daemon-reload", "enable podrun.service", "restart podrun.service"}, m.calls); diff != "" {
		t.Error(diff)
	}
}

func TestInstallRefuses(t *testing.T) {
	options := InstallOptions{Unit: []byte(unit(t, UnitOptions{})), Dirs: []string{"/etc/podrun/manifests"}}
	for name, tc := range map[string]struct {
		prepare func(*testing.T, Service, *fakeManager)
		want    string
		forced  bool // whether the operation succeeds with --force
		written bool
	}{
		"a unit of the administrator's": {func(t *testing.T, s Service, _ *fakeManager) { s.write(t, "[Unit]\n") },
			"podrun.service: /etc/systemd/system/podrun.service was not written by podrun", true, false},
		"a masked unit": {func(t *testing.T, s Service, _ *fakeManager) {
			must(t, os.MkdirAll(filepath.Dir(s.path(UnitPath)), 0o755))
			must(t, os.Symlink("/dev/null", s.path(UnitPath)))
		}, "podrun.service: /etc/systemd/system/podrun.service was not written by podrun", true, false},
		"no systemd": {func(_ *testing.T, _ Service, m *fakeManager) { m.down = true },
			"podrun.service: systemd is not running on this host", false, false},
		"systemctl fails": {func(_ *testing.T, _ Service, m *fakeManager) { m.fail = "enable" },
			"podrun.service: systemctl enable podrun.service: exit status 1: the bus is full", false, true},
		"a file for a directory": {func(t *testing.T, s Service, _ *fakeManager) {
			must(t, os.MkdirAll(s.path("/etc/podrun"), 0o755))
			must(t, os.WriteFile(s.path("/etc/podrun/manifests"), nil, 0o644))
		}, "podrun.service: create the manifest directory: PREFIX/etc/podrun/manifests: not a directory", false, false},
		"a link out of the prefix": {func(t *testing.T, s Service, _ *fakeManager) {
			must(t, os.Symlink(t.TempDir(), s.path("/etc")))
		}, "podrun.service: create the manifest directory: mkdirat ./etc/podrun: path escapes from parent", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newService(t)
			tc.prepare(t, s, m)
			err := s.Install(t.Context(), options)
			e, ok := errors.AsType[*problem.Error](err)
			if want := strings.ReplaceAll(tc.want, "PREFIX", s.Prefix); !ok || e.Kind != problem.Runtime || !strings.HasPrefix(e.Error(), want) {
				t.Fatalf("got %v, want %s", err, want)
			}
			if got := s.read(t) == string(options.Unit); got != tc.written {
				t.Errorf("the unit is written: %t", got)
			}
			if !tc.forced {
				return
			}
			options := options
			options.Force = true
			must(t, s.Install(t.Context(), options))
			if s.read(t) != string(options.Unit) {
				t.Error("--force did not replace the unit")
			}
		})
	}
}

func TestUninstall(t *testing.T) {
	s, m := newService(t)
	must(t, s.Install(t.Context(), InstallOptions{Unit: []byte(unit(t, UnitOptions{})), Dirs: []string{"/m", "/etc/podrun/empty", "/etc/podrun/used"}, Delay: time.Minute}))
	must(t, os.WriteFile(s.path("/etc/podrun/used/pod.yaml"), nil, 0o600))
	m.calls, m.fail = nil, "disable"
	if _, err := s.Uninstall(t.Context(), UninstallOptions{}); err == nil || s.read(t) == "" {
		t.Errorf("a service that can't be stopped: %v", err)
	}
	m.calls, m.fail = nil, ""
	if removed, err := s.Uninstall(t.Context(), UninstallOptions{Empty: []string{"/etc/podrun/empty", "/etc/podrun/used", "/etc/podrun", "/none"}}); err != nil || !removed {
		t.Errorf("removed %t, %v", removed, err)
	}
	for dir, want := range map[string]bool{"/etc/podrun/empty": false, "/etc/podrun/used/pod.yaml": true, filepath.Dir(DelayPath): false} {
		if _, err := os.Stat(s.path(dir)); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if diff := cmp.Diff([]string{"disable --now podrun.service", "kill --signal=HUP systemd-logind.service", "daemon-reload"}, m.calls); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(s.path("/m")); err != nil || s.read(t) != "" {
		t.Errorf("the manifests: %v; the unit: %q", err, s.read(t))
	}
	m.calls = nil
	if removed, err := s.Uninstall(t.Context(), UninstallOptions{}); err != nil || removed || len(m.calls) != 1 || m.calls[0] != "daemon-reload" {
		t.Errorf("the second time: removed %t, %v, calls %q", removed, err, m.calls)
	}

	s.write(t, "[Unit]\n")
	m.calls = nil
	if _, err := s.Uninstall(t.Context(), UninstallOptions{}); err == nil || len(m.calls) > 0 {
		t.Errorf("another's unit: %v, %q", err, m.calls)
	}
	if removed, err := s.Uninstall(t.Context(), UninstallOptions{Force: true}); err != nil || !removed {
		t.Errorf("another's unit by force: %t, %v", removed, err)
	}
}

// TestOtherHost checks that Install enables the unit with a link in another host's file system.
func TestOtherHost(t *testing.T) {
	s := Service{Prefix: t.TempDir()}
	for range 2 {
		must(t, s.Install(t.Context(), InstallOptions{Unit: []byte(unit(t, UnitOptions{}))}))
		if to, err := os.Readlink(s.path(wantedBy)); err != nil || to != UnitPath {
			t.Errorf("the link that enables the unit: %q, %v", to, err)
		}
	}
	if removed, err := s.Uninstall(t.Context(), UninstallOptions{}); err != nil || !removed {
		t.Errorf("removed %t, %v", removed, err)
	}
	var left []string
	must(t, filepath.WalkDir(s.Prefix, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, name)
		}
		return err
	}))
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestStatus(t *testing.T) {
	s, m := newService(t)
	m.output = "MainPID=42\nNRestarts=2\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n" +
		"FragmentPath=/etc/systemd/system/podrun.service\nActiveEnterTimestamp=Sun 2026-11-22 01:00:00 UTC\nResult=success\nExecMainStatus=0\nStatusText=3 pods=3\nOther=x\n"
	got, err := s.Status(t.Context())
	want := State{Unit: UnitName, Load: "loaded", Active: "active", Sub: "running", Enabled: "enabled", File: UnitPath,
		Since: "Sun 2026-11-22 01:00:00 UTC", MainPID: 42, Restarts: 2, Result: "success", Status: "3 pods=3"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	text := `podrun.service: active (running), enabled
  since      Sun 2026-11-22 01:00:00 UTC
  process    42
  status     3 pods=3
  restarts   2
  unit file  /etc/systemd/system/podrun.service
`
	if diff := cmp.Diff(text, got.String()); diff != "" {
		t.Error(diff)
	}
	if len(m.calls) != 1 || !strings.HasPrefix(m.calls[0], "show --property=LoadState,") {
		t.Errorf("calls: %q", m.calls)
	}
	for text, state := range map[string]State{
		"podrun.service: not installed\n": parseState([]byte("LoadState=not-found\nActiveState=inactive\nExecMainStatus=[not set]\n")),
		"podrun.service: failed (failed), disabled\n  result     watchdog\n  exit code  6\n": parseState(
			[]byte("LoadState=loaded\nActiveState=failed\nSubState=failed\nUnitFileState=disabled\nResult=watchdog\nExecMainStatus=6\n")),
		"podrun.service: inactive (dead), masked\n": parseState([]byte("LoadState=masked\nActiveState=inactive\nSubState=dead\nUnitFileState=masked\n")),
	} {
		if got := state.String(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	m.down = true
	if _, err := s.Status(t.Context()); err == nil || err.Error() != "podrun.service: systemd is not running on this host" {
		t.Errorf("without systemd: %v", err)
	}
}

// TestSystemctl tests Systemctl with a script in place of systemctl.
func TestSystemctl(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	script := func(text string) {
		must(t, os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"+text), 0o755))
	}
	script("echo \"$@\"\n")
	if out, err := (Systemctl{}).Run(t.Context(), "show", "x y"); err != nil || string(out) != "--no-pager --no-ask-password show x y\n" {
		t.Errorf("%q, %v", out, err)
	}
	script("echo 'Unit not found.' >&2; exit 5\n")
	if _, err := (Systemctl{}).Run(t.Context(), "enable", UnitName); err == nil || err.Error() != "systemctl enable podrun.service: exit status 5: Unit not found." {
		t.Errorf("%v", err)
	}
	script("head -c 200000 /dev/zero\n")
	if out, err := (Systemctl{}).Run(t.Context(), "show"); err != nil || len(out) != maxOutput {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	script("exec sleep 1000\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("ended by SIGINT")) })
	if _, err := (Systemctl{}).Run(ctx, "restart"); err == nil || !strings.Contains(err.Error(), "ended by SIGINT") {
		t.Errorf("%v", err)
	}
	was := programDirs
	defer func() { programDirs = was }()
	programDirs = []string{filepath.Join(dir, "none"), dir}
	t.Setenv("PATH", "")
	script("echo found\n")
	if out, err := (Systemctl{}).Run(t.Context(), "show"); err != nil || string(out) != "found\n" {
		t.Errorf("without PATH: %q, %v", out, err)
	}
	must(t, os.Remove(filepath.Join(dir, "systemctl")))
	if _, err := (Systemctl{}).Run(t.Context(), "show"); err == nil || err.Error() != "systemctl is not installed" {
		t.Errorf("%v", err)
	}
}

// TestDelay checks that Install writes logind's drop-in if pods may take longer than logind waits,
// and that Uninstall removes it. Uninstall must keep a drop-in that podrun did not write.
func TestDelay(t *testing.T) {
	s, m := newService(t)
	drop := func() string {
		data, err := os.ReadFile(s.path(DelayPath))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(data)
	}
	install := func(d time.Duration) {
		t.Helper()
		must(t, s.Install(t.Context(), InstallOptions{Unit: []byte(unit(t, UnitOptions{})), Delay: d}))
	}
	const hup = "kill --signal=HUP systemd-logind.service"
	install(0)
	if drop() != "" || slices.Contains(m.calls, hup) {
		t.Errorf("without periods: %q, calls %q", drop(), m.calls)
	}
	install(30500 * time.Millisecond)
	if !strings.HasSuffix(drop(), "[Login]\nInhibitDelayMaxSec=36\n") || !slices.Contains(m.calls, hup) {
		t.Errorf("drop-in %q, calls %q", drop(), m.calls)
	}
	m.calls = nil
	install(30500 * time.Millisecond)
	if slices.Contains(m.calls, hup) {
		t.Error("logind reads its files again although nothing has changed")
	}
	// This simulates that logind is not running.
	m.fail = "kill"
	install(time.Minute)
	if !strings.Contains(drop(), "InhibitDelayMaxSec=65") {
		t.Errorf("drop-in %q", drop())
	}
	if _, err := s.Uninstall(t.Context(), UninstallOptions{}); err != nil || drop() != "" {
		t.Errorf("uninstall: %v, %q", err, drop())
	}
	// Uninstall removed the directory together with the drop-in.
	must(t, os.MkdirAll(filepath.Dir(s.path(DelayPath)), 0o755))
	must(t, os.WriteFile(s.path(DelayPath), []byte("[Login]\n"), 0o644))
	install(time.Minute)
	if _, err := s.Uninstall(t.Context(), UninstallOptions{}); err != nil || drop() != "[Login]\n" {
		t.Errorf("another's drop-in is %q, %v", drop(), err)
	}
}

// TestSettings checks that Install creates a settings file only if nothing exists at its path,
// and that Uninstall removes the file only if it was not changed.
func TestSettings(t *testing.T) {
	const path, text, other = "/etc/podrun/config.yaml", "seccompDefault: true\n", "maxPods: 3\n"
	for name, tc := range map[string]struct {
		have, change  string // content of the file before Install, and its change after Install
		created, stay bool
	}{
		"no file":             {"", "", true, false},
		"a changed file":      {"", text + other, true, true},
		"the administrator's": {other, "", false, true},
		// An earlier Install has created the file.
		"the same text":              {text, "", false, false},
		"an empty file":              {"\n", "", false, true},
		"a link to a file, dangling": {"link", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newService(t)
			file := s.path(path)
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			switch tc.have {
			case "":
			case "link":
				must(t, os.Symlink("/run/late/config.yaml", file))
			default:
				must(t, os.WriteFile(file, []byte(tc.have), 0o600))
			}
			created := 0
			options := InstallOptions{Unit: []byte(unit(t, UnitOptions{})), Now: true, Settings: &File{Path: path, Text: []byte(text)}, Created: func() { created++ }}
			m.fail = "restart"
			if err := s.Install(t.Context(), options); err == nil {
				t.Error("the error of systemctl is lost")
			}
			m.fail = ""
			// When the second call starts the service, the file already exists.
			must(t, s.Install(t.Context(), options))
			if want := map[bool]int{true: 1}[tc.created]; created != want {
				t.Errorf("created %d times, want %d", created, want)
			}
			if info, err := os.Stat(file); tc.created && (err != nil || info.Mode() != 0o644) {
				t.Errorf("%v, %v", info, err)
			}
			if tc.change != "" {
				must(t, os.WriteFile(file, []byte(tc.change), 0o644))
			}
			_, err := s.Uninstall(t.Context(), UninstallOptions{Settings: options.Settings, Empty: []string{"/etc/podrun"}})
			must(t, err)
			if s.Exists(path) != tc.stay || s.Exists("/etc/podrun") != tc.stay {
				t.Errorf("the file remains: %t, want %t", s.Exists(path), tc.stay)
			}
			if left, err := filepath.Glob(filepath.Dir(file) + "/.*"); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}
