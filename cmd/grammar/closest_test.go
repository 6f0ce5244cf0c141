package grammar

import "testing"

func TestClosestName(t *testing.T) {
	names := []string{"apply", "delete", "describe", "exec", "get", "logs", "restart", "start", "stop", "wait"}
	for typed, want := range map[string]string{
		"aply": "apply", "appply": "apply", "aplpy": "apply", "delte": "delete", "log": "", "exce": "exec", "strat": "start", "sotp": "stop",
		"edit": "", "top": "", "set": "", "wai": "", "weit": "wait", "apply": "", "rstart": "restart", "": "", "zzzz": "", "describ": "describe",
	} {
		if got := ClosestName(typed, names); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	if got := ClosestName("starp", []string{"start", "stare"}); got != "" {
		t.Errorf("%q is suggested, although another name is equally likely", got)
	}
}

func TestLikelyDuration(t *testing.T) {
	for given, want := range map[string]string{"5": "5s", "1 hour ago": "1h", "2 days": "48h", "10min": "10m", "abc": "30s or 5m", "": "30s or 5m"} {
		if got := LikelyDuration(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
