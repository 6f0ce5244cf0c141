package pods

import (
	"strings"
	"testing"
)

// TestFlagOfCommand checks that podrun warns about a flag after the image only if it is probably a flag
// for podrun.
func TestFlagOfCommand(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "",
		"sh -e A=B":                  "",
		"-e A=B":                     "-e A=B",
		"--env=A=B sh":               "--env=A=B",
		"-e 's/a=b/c/'":              "",
		"-v /src:/src make":          "-v /src:/src",
		"-v https://example.com":     "",
		"-v":                         "",
		"-p 8080:80":                 "-p 8080:80",
		"-p password":                "",
		"-it sh":                     "-it",
		"--rm":                       "--rm",
		"--name infra0 --data-dir d": "",
	} {
		got := ""
		if list := flagOfCommand("busybox", strings.Fields(line)); len(list) > 0 {
			got = list[0].Object
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
