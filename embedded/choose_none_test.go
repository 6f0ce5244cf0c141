package embedded

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
)

// TestNoRuntime: a host without a runtime gets the commands that install one.
func TestNoRuntime(t *testing.T) {
	survey := &Survey{Sockets: []Socket{{Endpoint: "unix:///run/containerd/containerd.sock", Program: "containerd"}, {Endpoint: "unix:///run/crio/crio.sock", Program: "crio"}}}
	for install, want := range map[string]string{
		"":                           "install containerd and start it; or use podrun-bundle, which contains a runtime, or ",
		"apt-get install containerd": "install one: apt-get install containerd; or use podrun-bundle, which contains a runtime, or ",
	} {
		_, err := Choose(ChooseInput{Wanted: Auto, Survey: survey, Install: install})
		e, ok := errors.AsType[*problem.Error](err)
		if !ok || e.Kind != problem.Runtime || !strings.HasPrefix(e.Hint, want) {
			t.Errorf("%+v, want %s…", e, want)
			continue
		}
		if want := "no container runtime found: unix:///run/containerd/containerd.sock and unix:///run/crio/crio.sock do not exist"; e.Error() != want {
			t.Errorf("%s, want %s", e, want)
		}
	}
}

// TestTroubleshootingNoRuntime compares the page with the error on a Debian host without
// a runtime.
func TestTroubleshootingNoRuntime(t *testing.T) {
	survey := &Survey{Sockets: []Socket{{Endpoint: "unix:///run/containerd/containerd.sock", Program: "containerd"}, {Endpoint: "unix:///run/crio/crio.sock", Program: "crio"}}}
	_, err := Choose(ChooseInput{Wanted: Auto, Survey: survey, Install: "apt-get install containerd runc containernetworking-plugins && systemctl enable --now containerd"})
	e, ok := errors.AsType[*problem.Error](err)
	if !ok {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/troubleshooting.md")
	if want := "    podrun: " + e.Error() + "\n    hint: " + e.Hint + "\n"; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("docs/troubleshooting.md lacks\n%s (%v)", want, err)
	}
}
