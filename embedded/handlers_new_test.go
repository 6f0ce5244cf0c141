package embedded

import (
	"slices"
	"testing"
)

// TestMissingHandlers checks that a handler is missing if its program was installed, or moved, after the
// configuration had been written.
func TestMissingHandlers(t *testing.T) {
	l := Layout{RootDir: "/var/lib/podrun"}
	all := Handlers(map[string]string{"crun": "/usr/bin/crun", kataShim: "/opt/kata/bin/" + kataShim, "youki": "/usr/local/bin/youki"})
	config := string(Config(l, StartOptions{Digest: "d"}, Traits{Handlers: all}))
	for name, c := range map[string]struct {
		have []Handler
		want []string
	}{
		"all":     {all, nil},
		"none":    {nil, nil},
		"moved":   {[]Handler{{Name: "crun", Program: "/usr/local/bin/crun"}}, []string{"crun"}},
		"another": {append(slices.Clone(all), Handler{Name: "nvidia", Program: "/usr/bin/nvidia-container-runtime"}), []string{"nvidia"}},
		"prefix":  {[]Handler{{Name: "cru", Program: "/usr/bin/crun"}}, []string{"cru"}},
	} {
		var got []string
		for _, h := range missingHandlers(config, slices.Clone(c.have)) {
			got = append(got, h.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: missing %v, want %v", name, got, c.want)
		}
	}
}
