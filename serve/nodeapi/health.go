package nodeapi

import "strings"

// maxReasons limits the number of reasons in a response.
const maxReasons = 100

// healthText returns the response of a health endpoint in the API server's format: "ok", or one
// line per check if a check fails or verbose is true.
func healthText(name string, checks []Check, verbose bool) (text string, healthy bool) {
	var b strings.Builder
	healthy = true
	for i, c := range checks {
		mark, rest := "[+]", " ok"
		if c.Note != "" {
			rest += ": " + oneLine(c.Note)
		}
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

// live returns the checks whose result may change if the process is restarted.
func live(checks []Check) []Check {
	var out []Check
	for _, c := range checks {
		if c.Live {
			out = append(out, c)
		}
	}
	return out
}

// oneLine replaces control characters, so that the text is one line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
