// Package doctor diagnoses why this host cannot run pods. It returns a fix for each problem. It is pure: it
// computes findings from the host's facts and from the admission problems that affect every pod, so that doctor and
// admission report the same problems.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
)

// Status is the result of a check.
type Status string

// The statuses are in order of severity.
const (
	// Another problem prevents the check.
	Skip Status = "skip"
	Pass Status = "pass"
	// Some pods, or some of their features, do not work.
	Warn Status = "warn"
	// No pod can run on this host.
	Fail Status = "fail"
)

// Finding is the result of one check.
type Finding struct {
	Group   string `json:"group"`  // host, user, cgroups, runtime, network or security
	Check   string `json:"check"`  // unique, for scripts
	Status  Status `json:"status"` // pass, warn, fail or skip
	Summary string `json:"summary"`
	Fix     string `json:"fix,omitempty"` // the command or the setting that fixes the problem
}

// Pressure is a resource of the host that is below an eviction threshold.
type Pressure struct {
	Condition string // MemoryPressure, DiskPressure, PIDPressure
	Why       string
}

// Input has the facts for Examine.
type Input struct {
	Facts    host.Facts
	Checkup  host.Checkup
	Settings nodeconfig.Settings
	// SettingsFault explains why podrun cannot use the settings file, and SettingsFix how to fix that; both are empty if
	// it can.
	SettingsFault, SettingsFix string
	// Down is the reason why the runtime does not respond, and DownHint says how to fix it. Both
	// are empty if the runtime responds.
	Down, DownHint string
	// Embedded describes the state of the embedded runtime. It is empty if podrun uses another
	// runtime. Startable is true if the embedded runtime is not running, but commands would start
	// it. Collision lists the networks of this host that overlap the subnet of the embedded
	// runtime's pods.
	Embedded  string
	Startable bool
	Collision string
	// EmbeddedProblem explains why the embedded runtime does not start, and EmbeddedFix how to fix that; both are
	// empty if it runs, or if no start has failed. EmbeddedReplaced describes the last replacement of its damaged
	// store; it is empty if there was none, or if the damaged store was removed.
	EmbeddedProblem, EmbeddedFix, EmbeddedReplaced string
	// EmbeddedSandbox explains why the embedded runtime does not use podrun's sandbox image; it is empty if it does.
	EmbeddedSandbox string
	// EmbeddedLost names the blobs of images that the embedded runtime has lost, and that podrun can load again.
	EmbeddedLost string
	Unread       []string // why facts are unreadable, with a hint
	Allocatable  corev1.ResourceList
	Pressure     []Pressure
	// Refusals are the admission problems of a minimal pod. Every pod has these problems.
	Refusals problem.List
	// AllowKubelet is true if pods may run on a host with a kubelet. In that case, podrun has not
	// searched for a kubelet.
	AllowKubelet bool
	// Leftovers are resources on this host that podrun processes left because they were killed. An
	// entry has the form kind/name.
	Leftovers []string
	// StateFiles are the state files that podrun cannot use.
	StateFiles []*statefile.Fault
	// HostNetworkOnly is true if no pod needs the pod network.
	HostNetworkOnly bool
}

// group contains the checks of one part of the host.
type group struct {
	name   string
	checks []func(Input) Finding
}

// groups has all checks, in the order in which podrun reports them.
var groups = []group{
	{"host", []func(Input) Finding{root, privileges, facts, stateFiles, rootFS, rootDir, podLogs, containerLogs, settings, nodeName, kubelet, allocatable, pressure, swap, inotify, leftovers}},
	{"user", []func(Input) Finding{userNamespacesOfUser, subordinateIDs, idPrograms, userCgroups, linger, home}},
	{"cgroups", []func(Input) Finding{cgroupVersion, controllers, cgroupsWritable, cgroupDriver}},
	{"runtime", []func(Input) Finding{reachable, embedded, replacedStore, runtimeReady, runtimeWarnings, runtimeVersion, runtimeConfig, handlers, sandboxImage, oomScore, devices}},
	{"network", []func(Input) Finding{networkReady, cni, addresses, resolver}},
	{"security", []func(Input) Finding{seccomp, appArmor, seLinux, userNamespaces}},
}

// Examine runs all checks. The last findings are problems that affect every pod, but that no
// check covers.
func Examine(in Input) []Finding {
	var out []Finding
	for _, g := range groups {
		for _, check := range g.checks {
			f := check(in)
			if f.Check == "" {
				// The check does not apply to this host.
				continue
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

// checked has the reasons of the admission problems that a check of the host reports.
var checked = []string{
	"RuntimeNotReady", "NetworkNotReady", "CgroupDriverMismatch", "CgroupControllerMissing", "KubeletRunning", "InvalidSetting", "Evicted",
}

// OfHost reports whether a problem of a pod is a problem of the host, and so of every pod.
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

// refused returns the admission problem that has this reason.
func (in Input) refused(reason string) (problem.Problem, bool) {
	at := slices.IndexFunc(in.Refusals, func(p problem.Problem) bool { return p.Reason == reason && !p.Warning })
	if at < 0 {
		return problem.Problem{}, false
	}
	return in.Refusals[at], true
}

// down reports whether the runtime does not answer.
func (in Input) down() bool { return in.Down != "" }

// requireRuntime calls otherwise, which needs a running runtime, and returns its result. If the
// runtime does not respond, it returns a skipped finding instead.
func (in Input) requireRuntime(check string, otherwise func() Finding) Finding {
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
