package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUserService installs and removes the service of an ordinary user: in the user's directory, with the user's
// systemd, and without a change of logind's settings.
func TestUserService(t *testing.T) {
	unit, err := Unit(UnitOptions{User: true, Binary: "/home/ann/bin/podrun", Sources: []string{"/home/ann/pods"}})
	must(t, err)
	for _, want := range []string{marker, "ExecStart=/home/ann/bin/podrun serve /home/ann/pods\n", "Delegate=yes\n", "KillMode=process\n", "Type=notify\n", "WantedBy=default.target\n"} {
		if !strings.Contains(string(unit), want) {
			t.Errorf("the unit lacks %q:\n%s", want, unit)
		}
	}
	m := &fakeManager{}
	s := Service{Manager: m, UserDir: filepath.Join(t.TempDir(), ".config/systemd/user")}
	file := filepath.Join(s.UserDir, UnitName)
	settings := &File{Path: filepath.Join(t.TempDir(), "podrun/config.yaml"), Text: []byte("a: b\n")}
	must(t, s.Install(t.Context(), InstallOptions{Unit: unit, Now: true, Delay: 1 << 40, Settings: settings}))
	if got, err := os.ReadFile(file); err != nil || string(got) != string(unit) {
		t.Errorf("the file is %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{"daemon-reload", "enable podrun.service", "restart podrun.service"}, m.calls); diff != "" {
		t.Error(diff)
	}
	must(t, os.WriteFile(file, []byte("[Unit]\n"), 0o644))
	if err := s.Install(t.Context(), InstallOptions{Unit: unit}); err == nil || !strings.Contains(err.Error(), file+" was not written by podrun") {
		t.Errorf("a unit of the user's: %v", err)
	}
	must(t, os.WriteFile(file, unit, 0o644))
	m.calls = nil
	removed, err := s.Uninstall(t.Context(), UninstallOptions{Settings: settings})
	if _, serr := os.Stat(file); !removed || err != nil || !errors.Is(serr, fs.ErrNotExist) {
		t.Errorf("removed: %v, %v, %v", removed, err, serr)
	}
	if diff := cmp.Diff([]string{"disable --now podrun.service", "daemon-reload"}, m.calls); diff != "" {
		t.Error(diff)
	}
}
