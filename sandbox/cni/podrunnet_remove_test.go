package cni

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The plugin in TestRemoveOwn records its calls. The tests of embedded/bundle/podrun-net cover the
// DEL of the real plugin.
func TestRemoveOwn(t *testing.T) {
	root := t.TempDir()
	calls := filepath.Join(root, "calls")
	plugin := filepath.Join(root, "runtime", strings.Repeat("ab", 32), "cni", "podrun-net")
	lease := filepath.Join(root, "runtime/cni/addresses/podrun/10.96.0.2")
	for path, text := range map[string]string{
		plugin: "#!/bin/sh\necho $CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME >>" + calls + "\ncat >>" + calls + "\necho >>" + calls + "\n[ $CNI_CONTAINERID != " + here + " ] || { echo no such kernel; exit 1; }\n",
		lease:  gone + "\neth0",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(t.Context(), root, nil, []string{gone, "no ID"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(calls)
	if want := "DEL " + gone + " eth0\n" + ownConfig + "\n"; err != nil || string(got) != want {
		t.Errorf("%v: calls:\n%s\nwant:\n%s", err, got, want)
	}
	if _, err := os.Stat(lease); !os.IsNotExist(err) {
		t.Errorf("the lease is left: %v", err)
	}
	err = removeOwn(t.Context(), root, []string{here, gone})
	if err == nil || !strings.Contains(err.Error(), "sandbox "+here) || !strings.Contains(err.Error(), "no such kernel") {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(calls); err != nil || strings.Count(string(got), "DEL "+gone) != 2 {
		t.Errorf("%v: one that fails keeps others:\n%s", err, got)
	}
	if err := removeOwn(t.Context(), t.TempDir(), []string{gone}); err != nil {
		t.Errorf("without a runtime: %v", err)
	}
}
