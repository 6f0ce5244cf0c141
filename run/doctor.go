package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/host/doctor"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/prepare"
)

// Diagnosis is the result of an examination of this host. It marshals to stable JSON.
type Diagnosis struct {
	Verdict  doctor.Status    `json:"verdict"`  // the most severe status of the findings: pass, warn or fail
	Findings []doctor.Finding `json:"findings"` // one per check, in the order of the report
	Pods     []PodVerdict     `json:"pods,omitempty"`
	Facts    host.Facts       `json:"facts"`   // a valid input for `podrun plan --facts`
	Checkup  host.Checkup     `json:"checkup"` // other facts that were read
}

// PodVerdict reports whether this host can run one pod.
type PodVerdict struct {
	Pod      string        `json:"pod"` // namespace/name
	Status   doctor.Status `json:"status"`
	Problems problem.List  `json:"problems,omitempty"` // except problems of the host, which are in Diagnosis.Findings
}

// DoctorOptions are the options of Doctor.
type DoctorOptions struct {
	AllowKubelet bool
	// NoRuntime explains why the engine has no runtime; nil if it has one.
	NoRuntime error
	// SettingsFault describes a settings file that podrun cannot use; empty if it can.
	SettingsFault, SettingsFix string
	// Embedded is the state of the embedded runtime; empty if another one is used.
	Embedded ownruntime.State
}

// Doctor examines this host and checks whether it can run the pods; objects may be nil. It changes
// nothing. Without a runtime, it reports the findings that do not require a runtime. It returns an
// error if ctx ended, or if a pod of the same name could not be read. Problems of the host or the
// pods are in the Diagnosis.
func Doctor(ctx context.Context, n *node.Node, objects *manifest.Objects, o DoctorOptions) (Diagnosis, error) {
	if objects == nil {
		objects = &manifest.Objects{}
	}
	wanted := prepare.NewWanted(objects, n.Settings, o.AllowKubelet)
	seen := discover.Examine(ctx, n.Client, n.Settings, wanted.Facts)
	if err := context.Cause(ctx); err != nil {
		return Diagnosis{}, err
	}
	if o.NoRuntime == nil && !ownruntime.IsOfUser(n.Client.Endpoint()) {
		// An ordinary user runs pods only with the user's own runtime.
		seen.Checkup.User = nil
	}
	seen.Checkup.MissingPrivileges = embedded.MissingPrivileges()
	seen.Checkup.PrivilegesHint = embedded.PrivilegesHint
	seen.Checkup.Initramfs = embedded.ReadRootfs(ctx)
	in := doctor.Input{
		AllowKubelet:  o.AllowKubelet,
		Facts:         seen.Facts,
		Checkup:       seen.Checkup,
		Settings:      n.Settings,
		SettingsFault: o.SettingsFault,
		SettingsFix:   o.SettingsFix,
	}
	for _, err := range seen.Unread {
		what, hint := describe(err)
		if hint != "" {
			what += " (" + hint + ")"
		}
		in.Unread = append(in.Unread, what)
	}
	in.Down, in.DownHint = describe(errors.Join(seen.Down, o.NoRuntime))
	in.Embedded = o.Embedded.State
	in.Collision = o.Embedded.Collision
	in.EmbeddedProblem = o.Embedded.Problem
	in.EmbeddedFix = o.Embedded.Fix
	in.EmbeddedReplaced = o.Embedded.Replaced
	if o.Embedded.SandboxName != "" {
		in.Checkup.SandboxImage.Name = o.Embedded.SandboxName
	}
	in.EmbeddedSandbox = o.Embedded.Sandbox
	in.EmbeddedLost = o.Embedded.Lost
	in.Startable = o.Embedded.Problem == "" && (errors.Is(o.NoRuntime, ownruntime.ErrNotUsed) || errors.Is(o.NoRuntime, ownruntime.ErrStopped))
	in.Leftovers = listLeftovers(ctx, n, in.Down != "" || !seen.Checkup.Root)
	in.StateFiles = statefile.Scan(ctx, n.Layout(), func(statefile.Scope) bool { return true })
	in.Allocatable, _ = admission.Allocatable(seen.Facts, n.Settings)
	short, _ := admission.Shortages(seen.Facts, n.Settings)
	for _, s := range short {
		in.Pressure = append(in.Pressure, doctor.Pressure{Condition: string(s.Condition), Why: s.Why})
	}
	in.HostNetworkOnly = len(objects.Pods) > 0 && !slices.ContainsFunc(objects.Pods, func(p manifest.Pod) bool { return !p.Object.Spec.HostNetwork })
	in.Refusals = admission.Check(admission.Pod{Pod: plainPod(in.HostNetworkOnly)}, seen.Facts, n.Settings, admission.Options{AllowKubelet: o.AllowKubelet})
	d := Diagnosis{Findings: doctor.Examine(in), Facts: seen.Facts, Checkup: seen.Checkup}
	pods, err := verdicts(ctx, n, objects, wanted, seen.Facts, in.Down != "", o)
	if err != nil {
		return Diagnosis{}, err
	}
	d.Pods, d.Verdict = pods, doctor.Worst(d.Findings)
	for _, p := range pods {
		d.Verdict = doctor.Worst([]doctor.Finding{{Status: d.Verdict}, {Status: p.Status}})
	}
	return d, nil
}

// describe splits an error into the problem and its hint.
func describe(err error) (what, hint string) {
	if err == nil {
		return "", ""
	}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e.Error(), e.Hint
	}
	return err.Error(), ""
}

// plainPod is a pod without special requirements. It is not BestEffort, because podrun refuses only BestEffort pods
// under memory pressure.
func plainPod(hostNetwork bool) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "podrun", Name: "doctor", UID: "doctor"},
		Spec: corev1.PodSpec{
			HostNetwork: hostNetwork,
			Containers:  []corev1.Container{{Name: "app"}},
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists},
				{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
	}
}

// verdicts returns, for each pod, whether this host would admit it. If the runtime does not
// answer, verdicts assumes that it supports all features, because its limitations are unknown.
func verdicts(ctx context.Context, n *node.Node, objects *manifest.Objects, wanted prepare.Wanted, facts host.Facts, down bool, o DoctorOptions) ([]PodVerdict, error) {
	if len(objects.Pods) == 0 {
		return nil, nil
	}
	if down {
		facts.Runtime = ideal(facts.Runtime, objects)
	}
	seen, err := n.AddPods(ctx, wanted, facts)
	if errors.Is(err, fs.ErrPermission) {
		err = nil // podrun does not run as root; a separate finding reports this
	}
	if err != nil {
		return nil, err
	}
	targets, _ := prepare.All(prepare.Input{HostState: seen, Objects: objects, Settings: n.Settings,
		Invocation: n.Invocation, AllowKubelet: o.AllowKubelet})
	var out []PodVerdict
	for _, t := range targets {
		v := PodVerdict{Pod: t.Plan.ID.String(), Status: doctor.Pass}
		for _, p := range t.Problems {
			if doctor.OfHost(p) && !p.Warning {
				continue
			}
			status := doctor.Fail
			if p.Warning {
				status = doctor.Warn
			}
			v.Problems = append(v.Problems, p)
			v.Status = doctor.Worst([]doctor.Finding{{Status: v.Status}, {Status: status}})
		}
		out = append(out, v)
	}
	return out, nil
}

// ideal returns a copy of r that supports all features that the pods require.
func ideal(r host.Runtime, objects *manifest.Objects) host.Runtime {
	all := host.RuntimeHandler{RecursiveReadOnlyMounts: true, UserNamespaces: true}
	r.Handlers = map[string]host.RuntimeHandler{"": all}
	for _, class := range objects.RuntimeClasses {
		r.Handlers[class.Handler] = all
	}
	r.Features = map[string]bool{"supplementalGroupsPolicy": true}
	for _, name := range []string{"RuntimeReady", "NetworkReady"} {
		r.Conditions = append(r.Conditions, host.RuntimeCondition{Type: name, Status: true})
	}
	return r
}

// Refusal returns an error of kind Refused if this host cannot run pods, or cannot run all of the
// examined pods. Otherwise it returns nil.
func (d Diagnosis) Refusal() error {
	var checks []string
	for _, f := range d.Findings {
		if f.Status == doctor.Fail {
			checks = append(checks, f.Check)
		}
	}
	var refused []string
	for _, p := range d.Pods {
		if p.Status == doctor.Fail {
			refused = append(refused, p.Pod)
		}
	}
	switch {
	case len(checks) > 0:
		return &problem.Error{Kind: problem.Refused,
			Err:  fmt.Errorf("this host cannot run pods: %s", strings.Join(checks, ", ")),
			Hint: "see the fixes in the report"}
	case len(refused) > 0:
		return &problem.Error{Kind: problem.Refused, Err: fmt.Errorf("this host cannot run %s", strings.Join(refused, ", ")), Hint: "see the report"}
	}
	return nil
}
