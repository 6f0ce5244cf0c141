package parity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// refusals are the pods that the kubelet refused, each with a part of the kubelet's reason and a
// part of podrun's. If podrun's is empty, podrun runs the pod, as the kubelet would if the pod were
// not a static pod (the cause "marks of static pods").
var refusals = map[string]struct{ kubelets, podruns string }{
	"21-hostpath-wrong-type": {"hostPath type check failed: /tmp/crioracle-host/file.txt is not a socket file", "hostPath type check failed: /tmp/crioracle-host/file.txt is not a socket file"},
	"31-config-refs":         {"static pods may not reference configmaps", `configmap "cm" not found`},
	"32-secret-volume":       {"static pods may not reference secrets", `secret "nope" not found`},
	"33-serviceaccount":      {"static pods may not reference serviceaccounts", ""},
	"34-configmap-optional":  {"static pods may not reference secrets", ""},
	"35-ephemeral-container": {"spec.ephemeralContainers: Forbidden: cannot be set on create", "spec.ephemeralContainers: Forbidden: cannot be set on create"},
	"36-unsafe-sysctl":       {`forbidden sysctl: "net.core.somaxconn" not allowlisted`, `forbidden sysctl: "net.core.somaxconn" not allowlisted`},
	"40-apparmor":            {noAppArmor, noAppArmor},
	"42-projected":           {"kube client is not configured", ""},

	"hyukjuns__haproxy": {"open /etc/haproxy/haproxy.cfg: no such file or directory", "open /etc/haproxy/haproxy.cfg: no such file or directory"},

	examples + "pod-with-scheduling-gates":          {"spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared", ""},
	examples + "resource__cpu-request-limit-2":      {"res: cpu, q: 98000", "Node didn't have enough resource: cpu, requested: 100000"},
	examples + "resource__memory-request-limit-3":   {"res: memory", "Node didn't have enough resource: memory, requested: 1073741824000"},
	examples + "security__apparmor__default-pod":    {noAppArmor, noAppArmor},
	examples + "security__apparmor__hello-apparmor": {noAppArmor, noAppArmor},
	examples + "security__hello-apparmor":           {noAppArmor, noAppArmor},
	examples + "security__hello-apparmor-2":         {noAppArmor, noAppArmor},

	examples + "resource__pod-level-resource-managers-pod-scope-mixed": {"res: cpu, q: 2000", "Node didn't have enough resource: cpu, requested: 4000"},
	"kubernetes__content__en__examples__windows__run-as-username-pod":  {"node(s) didn't match Pod's node affinity/selector", "spec.nodeSelector: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
}

const noAppArmor = "Cannot enforce AppArmor: AppArmor is not enabled on the host"

// TestRefused compares the reasons why pods are refused with the recordings in testdata.
func TestRefused(t *testing.T) {
	needsHost(t)
	files, err := filepath.Glob(filepath.Join("testdata", "refused", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata/refused: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil || len(a.Files) != 2 {
				t.Fatalf("%s: want the files pod.yaml and kubelet; %v", file, err)
			}
			manifest := filepath.Join(t.TempDir(), "pod.yaml")
			if err := os.WriteFile(manifest, a.Files[0].Data, 0o600); err != nil {
				t.Fatal(err)
			}
			compareRefusal(t, name, manifest, string(a.Files[1].Data))
		})
	}
	t.Logf("%d pods are refused as the kubelet does, or as the page says", len(files))
}

// TestRefusedCorpus is TestRefused for the pods of the corpus. With -update, it stores the
// recordings.
func TestRefusedCorpus(t *testing.T) {
	needsHost(t)
	dir := shared(t)
	seen := 0
	for _, set := range []string{"fake", "corpus"} {
		for _, file := range recordings(t, dir, set) {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			rec := readRecording(t, file)
			if len(rec.Sandboxes) > 0 {
				continue
			}
			seen++
			said := strings.Join(append(rec.Log, rec.Events...), "\n") + "\n"
			manifest := manifestOf(t, dir, set, name)
			if set == "corpus" {
				t.Run(name, func(t *testing.T) { compareRefusal(t, name, manifest, said) })
			} else if *update {
				keepRefused(t, name, manifest, said)
			}
		}
	}
	if seen != len(refusals) {
		t.Errorf("%d recordings, %d known refusals", seen, len(refusals))
	}
}

func keepRefused(t *testing.T, name, manifest, said string) {
	t.Helper()
	pod, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	a := &txtar.Archive{
		Comment: []byte("Recorded from kubelet v1.36.3 by TestRefusedCorpus -update: why it refused the pod.\n"),
		Files:   []txtar.File{{Name: "pod.yaml", Data: pod}, {Name: "kubelet", Data: []byte(said)}},
	}
	if err := os.WriteFile(filepath.Join("testdata", "refused", name+".txtar"), txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compareRefusal runs a pod that the kubelet refused, and compares podrun's reason with the
// kubelet's.
func compareRefusal(t *testing.T, name, manifest, said string) {
	t.Helper()
	want, known := refusals[name]
	if !known || !strings.Contains(said, want.kubelets) {
		t.Fatalf("the kubelet refused it: %s; the test expects %q", said, want.kubelets)
	}
	if !thisHostRefuses(t, want.kubelets) {
		t.Skip("this host has the feature that the recording host lacked")
	}
	pod := readPod(t, manifest)
	onHost := strings.NewReplacer(recordedHost, hostDir(t))
	for _, v := range pod.Spec.Volumes {
		if v.HostPath != nil {
			v.HostPath.Path = onHost.Replace(v.HostPath.Path)
		}
	}
	_, _, refused := sentFor(t, pod)
	switch words := onHost.Replace(want.podruns); {
	case words == "" && refused != nil:
		t.Errorf("refused: %v; want it to run", refused)
	case words != "" && (refused == nil || !strings.Contains(refused.Error(), words)):
		t.Errorf("refused: %v; want %s", refused, words)
	}
}

// thisHostRefuses reports whether the kubelet's recorded reason for refusing the pod also
// applies to this host.
func thisHostRefuses(t *testing.T, reason string) bool {
	t.Helper()
	switch reason {
	case noAppArmor:
		raw, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
		return err != nil || strings.TrimSpace(string(raw)) != "Y"
	case "res: cpu, q: 2000":
		return recordedHere(t)
	case "open /etc/haproxy/haproxy.cfg: no such file or directory":
		_, err := os.Stat("/etc/haproxy")
		return err != nil
	}
	return true
}
