package prepare

import (
	"testing"

	"github.com/podrun/podrun/host"
)

func TestRunsHere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		image    host.Image
		arch     string
		emulated []string
		want     bool
	}{
		{host.Image{OS: "linux", Arch: "amd64"}, "amd64", nil, true},
		{host.Image{OS: "linux", Arch: "arm64"}, "amd64", nil, false},
		{host.Image{OS: "linux", Arch: "arm64"}, "amd64", []string{"arm", "aarch64"}, true},
		{host.Image{OS: "linux", Arch: "386"}, "amd64", nil, true},
		{host.Image{OS: "linux", Arch: "arm"}, "arm64", nil, true},
		{host.Image{OS: "linux", Arch: "arm"}, "amd64", []string{"aarch64"}, false},
		{host.Image{OS: "windows", Arch: "amd64"}, "amd64", nil, false},
		{host.Image{}, "amd64", nil, true},
		{host.Image{OS: "linux", Arch: "odd"}, "amd64", []string{""}, false},
	} {
		if got := RunsOnHost(tc.image, host.Facts{OS: "linux", Arch: tc.arch, Emulated: tc.emulated}); got != tc.want {
			t.Errorf("%+v on %s %v: %v", tc.image, tc.arch, tc.emulated, got)
		}
	}
}
