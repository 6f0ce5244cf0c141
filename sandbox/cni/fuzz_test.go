package cni

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/cniplugin"
)

// FuzzParse parses libcni files with arbitrary content. podrun uses the results in paths and as a
// plugin's input. So each result must be a sandbox ID, a network name or an absolute directory, and
// the input must be that of podrun's plugin.
func FuzzParse(f *testing.F) {
	own := `{"kind":"cniCacheV1","containerId":"0123456789abcdef","config":"eyJwbHVnaW5zIjpbeyJ0eXBlIjoicG9kcnVuLW5ldCIsImJyaWRnZSI6ImIifSx7ImlwYW0iOnsidHlwZSI6Imhvc3QtbG9jYWwiLCJkYXRhRGlyIjoiL2EifX1dfQ==","ifName":"eth0","networkName":"podrun-1","netns":"/ns",
		"cniArgs":[["K8S_POD_UID","u"]],"capabilityArgs":{"portMappings":[{"HostPort":1}]},"result":{"ips":[{"address":"10.64.0.2/24"}]}}`
	for _, seed := range []string{own, strings.Replace(own, "0123456789abcdef", "../../../etc/passwd", 1), strings.Replace(own, "podrun-1", "..", 1), strings.Replace(own, "10.64.0.2/24", "x", 1), "{}", "[]", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, ok := Parse("/var/lib/cni/results/x", data); ok {
			if strings.ContainsAny(a.Sandbox+a.Network, "/\x00") || a.Sandbox == "" || a.Network == "" || a.Network[0] == '.' {
				t.Errorf("%+v", a)
			}
			for _, dir := range a.LeaseDirs {
				if !filepath.IsAbs(dir) || filepath.Base(dir) != a.Network {
					t.Errorf("leases in %q", dir)
				}
			}
		}
		a, ok := parseOwn(data, "podrun-1")
		if !ok {
			return
		}
		var stdin struct{ Name, Type, Bridge string }
		if err := json.Unmarshal(a.stdin, &stdin); err != nil || stdin.Name != "podrun-1" || stdin.Type != cniplugin.Own || !ids().MatchString(a.sandbox) || len(a.families) > 2 {
			t.Errorf("%+v: %v, %+v", a, err, stdin)
		}
	})
}
