package identity

import (
	"strings"
	"testing"
)

func TestSafeUID(t *testing.T) {
	for uid, safe := range map[string]bool{
		"4920af2993faf5f8944b9234a370ef1a":     true,
		"8B1C7C7E-0000-4000-8000-00000000aaaa": true,
		"a":                                    true,
		"a-":                                   true,
		strings.Repeat("a", 128):               true,
		strings.Repeat("a", 129):               false,
		"":                                     false,
		"-a":                                   false,
		".":                                    false,
		"..":                                   false,
		"../../../etc":                         false,
		"a/b":                                  false,
		"a_b":                                  false,
		"a\n":                                  false,
		"a\x00":                                false,
		"ä":                                    false,
	} {
		if got := SafeUID(uid); got != safe {
			t.Errorf("SafeUID(%q) = %v, want %v", uid, got, safe)
		}
	}
}

// TestReservedImage checks that other spellings of a reserved host do not pass.
func TestReservedImage(t *testing.T) {
	for name, want := range map[string]bool{"pause.podrun.invalid/pause:1": true, "podrun.invalid/x": true, "PAUSE.podrun.INVALID/pause@sha256:1": true, "a.b.podrun.invalid:5000/x:1": true,
		"pause.podrun.invalid./pause": true, "pause.podrun.invalid": false, "notpodrun.invalid/x": false, "docker.io/podrun.invalid/x": false, "registry.example/pause.podrun.invalid/pause:1": false, "": false} {
		if got := ReservedImage(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}
