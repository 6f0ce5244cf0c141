package entry

import (
	"strings"
	"testing"
)

func TestStaysOutside(t *testing.T) {
	for line, want := range map[string]bool{
		"":                         true,
		"--help":                   true,
		"help get":                 true,
		"version":                  true,
		"service install --user":   true,
		"__complete get pods":      true,
		"get":                      false,
		"-v get":                   false,
		"--root-dir=/x apply -f -": false,
		"logs version":             false,
		"exec web -- version":      false,
	} {
		if got := staysOutside(strings.Fields(line)); got != want {
			t.Errorf("podrun %s: stays outside: %v, want %v", line, got, want)
		}
	}
}
