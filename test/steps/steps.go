// Package steps lists the steps of a command at which the crash sweeps interrupt it
// (internal/faultpoint).
package steps

import "strings"

// Delays are the times from the beginning of a call to the interruption, for calls that change the runtime.
var Delays = map[string][]string{
	"RunPodSandbox":    {"0ms", "15ms", "40ms", "80ms", "120ms", "200ms"},
	"CreateContainer":  {"0ms", "5ms", "20ms"},
	"StartContainer":   {"0ms", "10ms", "25ms", "50ms"},
	"StopContainer":    {"0ms", "10ms", "30ms"},
	"StopPodSandbox":   {"0ms", "15ms", "40ms", "80ms", "120ms"},
	"RemovePodSandbox": {"0ms", "10ms", "30ms"},
	"RemoveContainer":  {"0ms", "10ms", "30ms"},
}

// Of returns the steps in the trace of a command that was not interrupted. Of calls that only read, it returns the
// first two.
func Of(trace string) []string {
	var out []string
	for _, step := range strings.Fields(trace) {
		name, n, _ := strings.Cut(step, "#")
		call, isCall := strings.CutPrefix(name, "cri/")
		method, when, _ := strings.Cut(call, "/")
		switch {
		case !isCall:
			out = append(out, step)
		case len(Delays[method]) == 0:
			if when == "after" && (n == "1" || n == "2") {
				out = append(out, step)
			}
		case when == "sent":
			for _, d := range Delays[method] {
				out = append(out, step+"@"+d)
			}
		default:
			out = append(out, step)
		}
	}
	return out
}
