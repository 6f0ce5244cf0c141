package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/service"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestNamesOfServicesInHostsFiles checks which pods get the names of Services at a synchronization: those
// that use the cluster's DNS. A hosts file that a container has filled must not prevent the synchronization of
// the other pods.
func TestNamesOfServicesInHostsFiles(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const containers = "containers: [{name: app, image: registry.example/app:1}]"
	for name, spec := range map[string][]string{
		"first": nil, "hostile": nil, "linked": nil, "default": {"dnsPolicy: Default"}, "hostnet": {"hostNetwork: true"},
		"none":     {"dnsPolicy: None", "dnsConfig: {nameservers: [192.0.2.1]}"},
		"withhost": {"hostNetwork: true", "dnsPolicy: ClusterFirstWithHostNet"},
	} {
		r.MustApply(rig.PodText(name, "Always", append(spec, containers)...), run.OutcomeCreated)
	}
	hosts := func(name string) string { return r.Layout().Pod(string(r.Pod(name).UID)).EtcHosts() }
	read := func(name string) string {
		data, err := os.ReadFile(hosts(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	write := func(name, text string) {
		if err := os.WriteFile(hosts(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	base := read("default")
	// An earlier release wrote the names to the files of all pods.
	write("default", base+service.HostsMark+"10.0.0.1\tgithub.com\n")
	filled := strings.Repeat("10.0.0.1\tx\n", 800_000)
	write("hostile", filled)
	// One unusable file does not affect the other pods.
	elsewhere := filepath.Join(t.TempDir(), "hosts")
	if err := errors.Join(os.WriteFile(elsewhere, []byte("192.0.2.1\tx\n"), 0o644), os.Remove(hosts("linked")), os.Symlink(elsewhere, hosts("linked"))); err != nil {
		t.Fatal(err)
	}

	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "com", Name: "github"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "192.0.2.66"}}
	for range 2 {
		if _, _, err := servicesync.Apply(t.Context(), r.Engine(), map[string]*corev1.Service{"com/github": s}, servicesync.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"first": true, "withhost": true, "default": false, "none": false, "hostnet": false, "hostile": false, "linked": false} {
		if got := strings.Contains(read(name), "192.0.2.66\tgithub.com.svc.cluster.local\tgithub.com.svc\tgithub.com\n"); got != want {
			t.Errorf("pod %s has the name: %v, want %v", name, got, want)
		}
	}
	if text := read("default"); text != base {
		t.Errorf("the names of the earlier release remain: %s", text)
	}
	if read("hostile") != filled || r.Warned("is larger than 64 KiB") == 0 {
		t.Errorf("the filled file has changed, or there is no warning: %q", r.Warnings())
	}
	if r.Warned("too many levels of symbolic links") == 0 {
		t.Errorf("no warning about the link: %q", r.Warnings())
	}
	notes := servicesync.Notes(map[string]*corev1.Service{"com/github": s, "com/gitlab": {ObjectMeta: metav1.ObjectMeta{Namespace: "com", Name: "gitlab"}, Spec: s.Spec}})
	if len(notes) != 1 || !strings.Contains(notes[0].String(), "namespace com: is also a top-level domain: in pods with dnsPolicy ClusterFirst, the name github.com is the Service") {
		t.Errorf("%q, want one warning about the namespace com", notes)
	}
}
