package cniplugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExec checks the environment and input of a plugin, and that the error contains the plugin's
// reason.
func TestExec(t *testing.T) {
	t.Setenv("SECRET", "x")
	dir := t.TempDir()
	plugin, seen := filepath.Join(dir, "plugin"), filepath.Join(dir, "seen")
	script := "#!/bin/sh\n{ /usr/bin/env; cat; } >" + seen + "\nif [ $CNI_COMMAND = DEL ]; then echo '{\"code\":7,\"msg\":\"the reason\"}'; exit 1; fi\n"
	if err := os.WriteFile(plugin, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Exec(t.Context(), plugin, "ADD", []byte(`{"name":"n"}`), "CNI_IFNAME=eth0"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CNI_COMMAND=ADD\n", "CNI_IFNAME=eth0\n", "CNI_PATH=" + dir + "\n", `{"name":"n"}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the plugin did not get %q:\n%s", want, data)
		}
	}
	if strings.Contains(string(data), "SECRET") {
		t.Errorf("the plugin got podrun's environment:\n%s", data)
	}
	if err := Exec(t.Context(), plugin, "DEL", nil); err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), plugin) {
		t.Errorf("error %v", err)
	}
}
