// Package doctor diagnoses why this host cannot run pods, and how to fix it. It is pure:
// its input is facts, its output is findings. The reasons for which admission would
// refuse any pod are an argument, so that both report the same.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// Status is the result of a check.
type Status string

// The statuses, in order of gravity.
const (
	Skip Status = "skip" // unknown because of another problem
	Pass Status = "pass"
	Warn Status = "warn" // some pods, or some of their features, won't work
	Fail Status = "fail" // no pod could run here
)

// Finding has the result of one check.
type Finding struct {
	Group   string `json:"group"`  // host, cgroups, runtime, network or security
	Check   string `json:"check"`  // names it, for scripts; unique
	Status  Status `json:"status"` // pass, warn, fail or skip
	Summary string `json:"summary"`
	Fix     string `json:"fix,omitempty"` // the command or the setting that helps
}

// Pressure is a resource of the host that is below an eviction threshold.
type Pressure struct {
	Condition string // MemoryPressure, DiskPressure, PIDPressure
	Why       string
}

// Input is the input of Examine.
type Input struct {
	Facts    host.Facts
	Checkup  host.Checkup
	Settings nodeconfig.Settings
	// Down is why the runtime does not answer, and DownHint what to do about
	// it; empty if it does.
	Down, DownHint string
	// Embedded is the state of the embedded runtime, in words; empty if another is used.
	// Startable says that it does not run, and that commands start it.
	// Collision says which networks of this host overlap the subnet of its pods.
	Embedded    string
	Startable   bool
	Collision   string
	Unread      []string // why facts could not be read, with a hint
	Allocatable corev1.ResourceList
	Pressure    []Pressure
	// Refusals are admission's problems for a plain pod, and thus for any pod.
	Refusals problem.List
	// AllowKubelet is true if pods may run on a host with a kubelet, so that no kubelet
	// was searched for.
	AllowKubelet bool
	// Leftovers are what killed podruns left on this host, as kind/name.
	Leftovers []string
	// HostNetworkOnly is true if no pod requires a pod network.
	HostNetworkOnly bool
}

// group is the checks of one part of the host.
type group struct {
	name   string
	checks []func(Input) Finding
}

// groups is every check, in the order in which they are reported.
var groups = []group{
	{"host", []func(Input) Finding{root, facts, rootFS, rootDir, podLogs, containerLogs, settings, nodeName, kubelet, allocatable, pressure, swap, inotify, leftovers}},
	{"cgroups", []func(Input) Finding{cgroupVersion, controllers, cgroupsWritable, cgroupDriver}},
	{"runtime", []func(Input) Finding{reachable, embedded, runtimeReady, runtimeWarnings, runtimeVersion, runtimeConfig, handlers, sandboxImage, oomScore, devices}},
	{"network", []func(Input) Finding{networkReady, cni, addresses, resolver}},
	{"security", []func(Input) Finding{seccomp, appArmor, seLinux, userNamespaces}},
}

// Examine runs all checks. Problems that refuse every pod and belong to no check
// are the last findings.
func Examine(in Input) []Finding {
	var out []Finding
	for _, g := range groups {
		for _, check := range g.checks {
			f := check(in)
			if f.Check == "" {
				continue // it does not concern this host
			}
			f.Group = g.name
			out = append(out, f)
		}
	}
	return append(out, others(in)...)
}

// Worst returns the most severe status of the findings.
func Worst(findings []Finding) Status {
	worst := Pass
	for _, f := range findings {
		if rank(f.Status) > rank(worst) {
			worst = f.Status
		}
	}
	return worst
}

func rank(s Status) int { return slices.Index([]Status{Skip, Pass, Warn, Fail}, s) }

// checked are the reasons of admission that a check of the host reports.
var checked = []string{
	"RuntimeNotReady", "NetworkNotReady", "CgroupDriverMismatch", "CgroupControllerMissing", "KubeletRunning", "InvalidSetting", "Evicted",
}

// OfHost reports whether a problem of a pod concerns the host, and so every pod.
func OfHost(p problem.Problem) bool { return slices.Contains(checked, p.Reason) }

func others(in Input) []Finding {
	var out []Finding
	for _, p := range in.Refusals.Errors() {
		if !OfHost(p) {
			out = append(out, Finding{Group: "pods", Check: "pods-" + strings.ToLower(p.Reason), Status: Fail, Summary: p.Message, Fix: p.Hint})
		}
	}
	return out
}

// refused returns admission's problems for a reason.
func (in Input) refused(reason string) (problem.Problem, bool) {
	at := slices.IndexFunc(in.Refusals, func(p problem.Problem) bool { return p.Reason == reason && !p.Warning })
	if at < 0 {
		return problem.Problem{}, false
	}
	return in.Refusals[at], true
}

// down reports whether the runtime says nothing.
func (in Input) down() bool { return in.Down != "" }

// ofRuntime is a finding that only a runtime that answers can make.
func (in Input) ofRuntime(check string, otherwise func() Finding) Finding {
	if in.down() {
		return Finding{Check: check, Status: Skip, Summary: "the runtime does not answer"}
	}
	f := otherwise()
	f.Check = check
	return f
}

func pass(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: Pass, Summary: fmt.Sprintf(format, args...)}
}

func refusal(check string, p problem.Problem) Finding {
	return Finding{Check: check, Status: Fail, Summary: p.Message, Fix: p.Hint}
}
