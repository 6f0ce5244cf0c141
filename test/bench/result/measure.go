package result

import (
	"fmt"
	"strings"
)

// Ratio is the unit of a figure that is a ratio of two programs.
const Ratio = "×"

// Measure describes a figure that has a goal or that the documentation shows.
type Measure struct {
	Name string // Row.Name
	Text string // in the documentation; empty if the documentation does not show it
	Unit string
	// Digits is the number of digits after the decimal point.
	Digits int
	Goal   float64 // maximum, or noGoal
	Readme bool    // README.md shows the figure, too
}

// noGoal is the goal of a figure that only informs.
const noGoal = -1

// HasGoal reports whether the figure has a maximum.
func (m Measure) HasGoal() bool { return m.Goal >= 0 }

// Measures are in the order of the documentation.
var Measures = []Measure{
	{"wall, 1 container", "1 container, image present: wall time relative to the bare client", Ratio, 2, 1.11, true},
	{"own overhead, 1 container", "podrun's own overhead, 1 container", "ms", 1, 16, true},
	{"wall, 1 container, against podman kube play", "1 container, relative to `podman kube play`", Ratio, 2, noGoal, true},
	{"wall, 1 container, against podman 5 kube play", "1 container, relative to `podman kube play` of podman 5 (`hack/podman5`)", Ratio, 2, noGoal, true},
	{"wall, 10 containers, against podman kube play", "10 containers, relative to `podman kube play`", Ratio, 2, noGoal, false},
	{"wall, 10 containers, against podman 5 kube play", "10 containers, relative to `podman kube play` of podman 5", Ratio, 2, noGoal, false},
	{"wall, 20 pods of one command, against podman kube play", "20 pods of one command, relative to `podman kube play`", Ratio, 2, noGoal, false},
	{"wall, 20 pods of one command, against podman 5 kube play", "20 pods of one command, relative to `podman kube play` of podman 5", Ratio, 2, noGoal, false},
	{"wall, 1 container, against nerdctl run", "1 container, relative to `nerdctl run`", Ratio, 2, noGoal, false},
	{"wall, 10 containers", "10 containers, each created while the previous one starts, relative to the bare client", Ratio, 2, 0.88, true},
	{"wall, 10 containers in parallel", "10 containers with `--start-order=parallel`, relative to the bare client", Ratio, 2, 0.8, true},
	{"wall, 10 init containers", "10 init containers, each created while the previous one runs, relative to the bare client", Ratio, 2, 0.95, false},
	{"next init container, after the runtime reports the exit", "time from the runtime's report that an init container has exited to podrun's call to start the next container", "ms", 1, 20, false},
	{"wall, 20 pods, 4 at a time", "20 pods, started by 4 processes at a time, relative to the bare client", Ratio, 2, noGoal, false},
	{"wall, a directory of 50 pods", "`apply` of a directory of 50 pods, relative to the bare client with the same parallelism", Ratio, 2, 1.1, true},
	{"delete of 1 pod", "`delete` of 1 pod, relative to the bare client", Ratio, 2, 1.08, false},
	{"delete of 20 pods", "`delete` of 20 pods, relative to the bare client", Ratio, 2, 1.08, false},
	{"run of true", "`podrun run` of the command `true`: time added to the bare client's create, start, wait and remove", "ms", 0, 100, false},
	{"50 ConfigMaps and Secrets of 100 keys", "`apply` with 50 ConfigMaps and Secrets of 100 keys as volumes: time added to `apply` without them", "ms", 0, 40, false},
	{"mounts of 50 volumes", "the time that the same mounts add to the bare client's pod", "ms", 0, noGoal, false},
	{"pull of 8 images, against parallel pulls", "pulls of 8 images of 20 MB from a registry that serves each at 20 MB/s, relative to parallel pulls of the bare client", Ratio, 2, 1.1, false},
	{"pull of 8 images, against sequential pulls", "the same images, relative to sequential pulls of the bare client", Ratio, 2, 0.3, false},
	{"requests to the registry, image present", "requests to the registry for a pod whose image is present", "", 0, 0, true},
	{"start of version --client", "`podrun version --client`", "ms", 1, 8, false},
	{"start of an empty program", "start of an empty Go program", "ms", 1, noGoal, false},
	{"peak memory, 10 containers", "peak memory, 10 containers", "MB", 1, 45, true},
	{"peak memory, a directory of 50 pods", "peak memory, a directory of 50 pods", "MB", 1, 60, true},
	{"bundle: network", "podrun-bundle: time that the pod network adds to the start and the delete of a pod, relative to the standard CNI plugins on the same containerd (`make bench-bundle`)", Ratio, 2, 0.3, false},
	{"bundle: wall, 1 container, against podman kube play", "podrun-bundle: 1 container, relative to `podman kube play` (`make bench-bundle`)", Ratio, 2, 0.72, false},
	{"bundle: wall, 1 container, against Debian's containerd", "podrun-bundle: 1 container, relative to the same podrun with Debian's containerd, runc and CNI plugins (`make bench-bundle`)", Ratio, 2, 1.05, false},
	{"boot of 50 pods, against a kubelet", "podrun-bundle: `serve` starts 50 pods at boot, relative to a standalone kubelet v1.36.3 on the same containerd (`make bench-kubelet`)", Ratio, 2, 0.42, false},
	{"idle: CPU time", "`serve`, idle, 50 pods with 100 HTTP probes every 10 s, containerd (`make bench-serve`): CPU time a minute", "s", 2, 0.6, false},
	{"idle: system calls", "the same `serve`: system calls a second", "", 0, 250, false},
	{"idle: private memory", "private memory of an idle `serve` with 50 pods and 100 HTTP probes", "MB", 1, 24, true},
	{"binary", "binary", "MB", 1, 48, true},
	// Of streams, the goals are the inverse of the least throughput relative to root: 0.3, 0.15 and 0.5.
	{Name: "rootless: apply, against root", Unit: Ratio, Digits: 2, Goal: 1.1},
	{Name: "rootless: get, against root", Unit: Ratio, Digits: 2, Goal: 1.3},
	{Name: "rootless: delete, against root", Unit: Ratio, Digits: 2, Goal: noGoal},
	{Name: "rootless: time of a stream out of a pod, against root", Unit: Ratio, Digits: 2, Goal: 3.33},
	{Name: "rootless: time of a stream into a pod, against root", Unit: Ratio, Digits: 2, Goal: 6.67},
	{Name: "rootless: time of a stream to a host port, against root", Unit: Ratio, Digits: 2, Goal: 2},
	{Name: "rootless: time of a stream from a host port, against root", Unit: Ratio, Digits: 2, Goal: 2},
	{Name: "rootless: apply, against rootless podman kube play", Unit: Ratio, Digits: 2, Goal: 0.7},
	{Name: "apply, for each other pod", Text: "with up to 10,000 pods on the host: time that each adds to `apply` (fake runtime)", Unit: "µs", Digits: 1, Goal: 20},
	{Name: "get NAME, for each other pod, CPU time", Text: "the same: CPU time that each adds to `get NAME`", Unit: "µs", Digits: 1, Goal: 1},
	{Name: "delete NAME, for each other pod, CPU time", Text: "the same: CPU time that each adds to `delete NAME`", Unit: "µs", Digits: 1, Goal: 1},
}

// Find returns the measure of a row. A row without one has no goal, and its unit determines its
// digits.
func Find(name, unit string) Measure {
	for _, m := range Measures {
		if m.Name == name {
			return m
		}
	}
	m := Measure{Name: name, Unit: unit, Digits: 1, Goal: noGoal}
	if unit == Ratio {
		m.Digits = 2
	}
	return m
}

// Show formats a value with its unit.
func (m Measure) Show(v float64) string {
	return strings.TrimSpace(m.number(v) + " " + m.Unit)
}

// Spread formats the minimum, the median and the 95th percentile.
func (m Measure) Spread(s Statistic) string {
	return m.number(s.Min) + " / " + m.number(s.Median) + " / " + m.number(s.P95)
}

// ShowGoal formats the goal.
func (m Measure) ShowGoal() string {
	if !m.HasGoal() {
		return "-"
	}
	if m.Goal == 0 {
		return "0"
	}
	return "≤ " + strings.TrimSpace(fmt.Sprintf("%g %s", m.Goal, m.Unit))
}

func (m Measure) number(v float64) string { return fmt.Sprintf("%.*f", m.Digits, v) }
