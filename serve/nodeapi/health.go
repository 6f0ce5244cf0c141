package nodeapi

import "strings"

// maxReasons bounds the reasons that an answer repeats.
const maxReasons = 100

// healthText is the answer of a health endpoint, in the API server's form: "ok", or
// a line for each check. Verbose lists the checks in any case.
func healthText(name string, checks []Check, verbose bool) (text string, healthy bool) {
	var b strings.Builder
	healthy = true
	for i, c := range checks {
		mark, rest := "[+]", " ok"
		if c.Reason != "" {
			mark, rest, healthy = "[-]", " failed: "+oneLine(c.Reason), false
		}
		if i < maxReasons {
			b.WriteString(mark + c.Name + rest + "\n")
		}
	}
	switch {
	case !healthy:
		return b.String() + name + " check failed\n", false
	case verbose:
		return b.String() + name + " check passed\n", true
	}
	return "ok", true
}

// live are the checks that a restart of the process may change.
func live(checks []Check) []Check {
	var out []Check
	for _, c := range checks {
		if c.Live {
			out = append(out, c)
		}
	}
	return out
}

// oneLine replaces control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
