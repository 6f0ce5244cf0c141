package parity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refusals are the pods that the kubelet refused: words of its reason, and words
// of podrun's. Where those are empty podrun runs the pod, as the kubelet would do
// if it were not a static one (the cause "marks of static pods").
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
	"kubernetes__content__en__examples__windows__run-as-username-pod":  {"node(s) didn't match Pod's node affinity/selector", "spec.nodeSelector: the selector wants kubernetes.io/os=windows"},
}

const noAppArmor = "Cannot enforce AppArmor: AppArmor is not enabled on the host"

// TestRefused compares why pods are refused.
func TestRefused(t *testing.T) {
	needsHost(t)
	dir := shared(t)
	same, caused, seen := 0, 0, 0
	for _, set := range []string{"fake", "corpus"} {
		for _, file := range recordings(t, dir, set) {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			rec := readRecording(t, file)
			if len(rec.Sandboxes) > 0 {
				continue
			}
			seen++
			t.Run(name, func(t *testing.T) {
				want, known := refusals[name]
				if said := strings.Join(append(rec.Log, rec.Events...), "\n"); !known || !strings.Contains(said, want.kubelets) {
					t.Fatalf("the kubelet refused it: %s; the test expects %q", said, want.kubelets)
				}
				if !thisHostRefuses(t, want.kubelets) {
					t.Skip("this host has what the recording host had not")
				}
				pod := readPod(t, manifestOf(t, dir, set, name))
				onHost := strings.NewReplacer(recordedHost, hostDir(t))
				for _, v := range pod.Spec.Volumes {
					if v.HostPath != nil {
						v.HostPath.Path = onHost.Replace(v.HostPath.Path)
					}
				}
				want.podruns = onHost.Replace(want.podruns)
				_, _, refused := sentFor(t, pod)
				switch {
				case want.podruns == "" && refused != nil:
					t.Errorf("refused: %v; want it to run", refused)
				case want.podruns != "" && (refused == nil || !strings.Contains(refused.Error(), want.podruns)):
					t.Errorf("refused: %v; want %s", refused, want.podruns)
				}
				if strings.Contains(want.kubelets, "static pods") || want.podruns == "" {
					caused++
				} else {
					same++
				}
			})
		}
	}
	t.Logf("%d pods are refused as by the kubelet, %d more by the cause %q", same, caused, causes[0].name)
	if seen != len(refusals) {
		t.Errorf("%d recordings, %d known refusals", seen, len(refusals))
	}
}

// thisHostRefuses tells whether a reason of the recording host holds here.
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
