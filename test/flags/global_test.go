package flags

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/test/ring"
)

// globalValues are the values of the global flags: one that most hosts accept, and one that podrun must
// refuse or that has an effect on pods.
var globalValues = map[string][]string{
	"allowed-unsafe-sysctls": {"net.*", "kernel"}, "cgroup-driver": {"cgroupfs", "x"}, "cgroup-root": {"/podrun-flags", "relative"},
	"cluster-dns": {"10.0.0.10", "x"}, "cluster-domain": {"example.org", "."}, "color": {"never", "x"}, "config": {"@/config.yaml", "@/absent"},
	"container-logs-dir": {"@/other-links", "relative"}, "container-runtime-endpoint": {"unix://@/cri.sock", "unix:///nonexistent"},
	"device": {"example.com/d=/dev/null", "x"}, "eviction-hard": {"memory.available<1Mi", "x"}, "hostname-override": {"node", "-"},
	"image-credential-provider-bin-dir": {"@/manifests", "@/absent"}, "image-credential-provider-config": {"@/absent"},
	"image-service-endpoint": {"unix://@/cri.sock", "unix:///nonexistent"}, "kube-reserved": {"cpu=100m", "memory=1Ei"},
	"max-parallel-image-pulls": {"1", "-1"}, "max-pods": {"100", "1", "0"}, "namespace": {"flags", "other", "-"}, "node-ip": {"127.0.0.1", "x"},
	"node-labels": {"a=b", "-=-"}, "pod-cidr": {"10.1.0.0/16", "x"}, "pod-logs-dir": {"@/other-logs", "relative"}, "pod-max-pids": {"100", "-2"},
	"pod-security": {"restricted", "hardened", "x"}, "pull-stall-timeout": {"1m", "-1s"}, "pull-timeout": {"1m", "-1s"}, "pvc-dir": {"@/claims", "relative"},
	"register-with-taints": {"a=b:NoSchedule", "x"}, "registry-auth": {"@/file", "@/absent"}, "registry-burst": {"1", "-1"}, "registry-qps": {"1", "-1"},
	"resolv-conf": {"@/file", "@/absent"}, "retry-pull": {"never", "x"}, "root-dir": {"@/other-root", "relative"}, "runtime": {"host", "embedded", "x"},
	"runtime-request-timeout": {"1m", "0s"}, "secrets": {"memory", "x"}, "start-order": {"parallel", "x"}, "system-reserved": {"memory=1Mi", "x"},
	"trace": {"json", "x"}, "user-namespaces": {"auto", "x"},
}

// globalFlags returns the flags of all commands.
func globalFlags() (out []*pflag.Flag) {
	cmd.Commands().PersistentFlags().VisitAll(func(f *pflag.Flag) { out = append(out, f) })
	return out
}

// globalOptions returns the values of a global flag that the test tries.
func globalOptions(f *pflag.Flag) (out []option) {
	for _, value := range globalValues[f.Name] {
		out = append(out, option{f.Name, []string{"--" + f.Name + "=" + value}})
	}
	if f.Value.Type() == "bool" {
		out = append(out, option{f.Name, []string{"--" + f.Name}}, option{f.Name, []string{"--" + f.Name + "=false"}})
	}
	return out
}

// TestGlobalFlags calls each command with the flags of all commands: in ring 3 with all values, in ring 2
// with a part of them.
func TestGlobalFlags(t *testing.T) {
	ring.Require(t, 2)
	ring.RequireRoot(t)
	every, n := 5, 0
	if ring.Is(3) {
		every = 1
	}
	flags, rigs := globalFlags(), newRigs(t)
	t.Cleanup(func() { _ = os.RemoveAll("relative") }) // a value of the flags for directories
	for _, f := range flags {
		if len(globalOptions(f)) == 0 {
			t.Errorf("--%s: add values to globalValues", f.Name)
		}
	}
	for _, c := range commands() {
		var chosen []call
		for _, f := range flags {
			for _, o := range globalOptions(f) {
				if n++; n%every == 0 && len(forms[c.path]) > 0 {
					args, blocks := line(c.path, forms[c.path][0], o)
					chosen = append(chosen, call{args, blocks})
				}
			}
		}
		t.Run(strings.TrimPrefix(c.path, "podrun "), func(t *testing.T) { tryAll(t, rigs, chosen) })
	}
}
