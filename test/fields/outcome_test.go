package fields

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/container/hook"
	"github.com/podrun/podrun/container/probe"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
)

// gates enable fields that Kubernetes disables by default.
var gates = map[string]bool{"ContainerStopSignals": true}

// facts returns the facts of a host with all features that podrun supports.
func facts() host.Facts {
	features := host.RuntimeHandler{RecursiveReadOnlyMounts: true, UserNamespaces: true}
	return host.Facts{
		NodeName: "node-1", Hostname: "node-1", OS: "linux", Arch: "amd64",
		NodeLabels: map[string]string{"disk": "ssd", corev1.LabelOSStable: "linux"},
		NodeTaints: []corev1.Taint{{Key: "own", Value: "mine", Effect: corev1.TaintEffectNoExecute}},
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("64"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110"),
			"ephemeral-storage": resource.MustParse("1Ti"),
		},
		MemoryAvailable: 60 << 30, NodeIPs: []string{"192.0.2.10"},
		Cgroup:        host.Cgroup{Version: 1, Driver: host.DriverCgroupfs, Controllers: []string{"cpu", "hugetlb", "memory", "pids"}, SwapLimits: true},
		HugePageSizes: []int64{2 << 20},
		AppArmor:      true, AppArmorProfiles: []string{"profile-a", "profile-b", "profile-c"}, SELinux: true,
		SeccompProfiles: map[string]string{},
		Runtime: host.Runtime{
			Name: "containerd", Version: "2.4.2", APIVersion: "v1", HandlersOK: true,
			Conditions: []host.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}},
			Handlers:   map[string]host.RuntimeHandler{"": features, "other": features},
			Features:   map[string]bool{"supplementalGroupsPolicy": true},
		},
	}
}

// outcome is podrun's result for a manifest.
type outcome struct {
	invalid problem.List // errors of validation
	// all other problems, including warnings
	problems problem.List
	does     string // podrun's actions
}

func outcomeOf(t *testing.T, pod any) outcome {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	loaded, problems := manifest.Load([]input.Source{{Name: "pod.yaml", Data: text}, {Name: "objects.yaml", Data: objects}},
		manifest.Options{Suffix: func() string { return "abcde" }})
	if errs := problems.Errors(); len(errs) > 0 {
		return outcome{invalid: errs, problems: problems}
	}
	settings := nodeconfig.Default()
	settings.ClusterDNS, settings.ClusterDomain, settings.FeatureGates = []string{"10.96.0.10"}, "cluster.local", gates
	targets, found := prepare.All(prepare.Input{Objects: loaded, HostState: prepare.HostState{Facts: facts()}, Settings: settings, Invocation: "i"})
	out := outcome{problems: append(problems, found...)}
	does := map[string]any{"refused": out.problems.Errors().String()}
	if len(out.problems.Errors()) == 0 {
		p := targets[0].Plan
		view, err := targets[0].ViewSecrets()
		if err != nil {
			t.Fatal(err)
		}
		view.Warnings = nil
		for i := range view.Containers {
			// The plan contains only a copy of PostStart from the manifest; later returns podrun's
			// actions for it.
			view.Containers[i].PostStart = nil
		}
		does["plan"], does["credentials"], does["unwatched"] = view, p.Images.PullSecrets, lifecycle.Unenforced(p.Pod)
		later(p, does)
	}
	raw, err := json.Marshal(does)
	if err != nil {
		t.Fatal(err)
	}
	out.does = string(raw)
	return out
}

// later returns podrun's actions after the pod has started: its hooks and probes, the actions
// when containers exit, and its status then.
func later(p *prepare.Plan, does map[string]any) {
	containers := slices.Concat(p.Pod.Spec.InitContainers, p.Pod.Spec.Containers)
	for i := range containers {
		c := &containers[i]
		for _, which := range []string{hook.PostStart, hook.PreStop} {
			if plan, ok := hook.New(p.ID, c, which); ok {
				does[c.Name+" "+which] = plan
			}
		}
		does[c.Name+" probes"] = probe.All(p.ID, c)
	}
	does["hosts"] = dns.EtcHosts(p.Pod, p.Name, []string{"192.0.2.20"}, "")
	for i := range p.Containers {
		for _, user := range []int64{0, 1000} {
			config, err := p.Containers[i].Config(container.Late{ImageUID: &user, PodIPs: []string{"192.0.2.20"}})
			does[fmt.Sprintf("%s of user %d", p.Containers[i].Name, user)] = fmt.Sprint(err, cri.Value(config))
		}
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// A number of at least 100 means that only init containers have exited, with the number minus
	// 100 as their exit code.
	for _, code := range []int32{-1, 0, 1, 42, 142} {
		for _, age := range []time.Duration{20 * time.Minute, 5 * time.Hour} {
			started := map[string]bool{}
			obs := &lifecycle.Observed{Sandboxes: []lifecycle.Sandbox{{ID: "s", Pod: p.ID, Ready: true, IPs: []string{"192.0.2.20"}, HostNetwork: p.Pod.Spec.HostNetwork, CreatedAt: start, Managed: true}}}
			for i := range containers {
				c := lifecycle.Container{ID: containers[i].Name + "-0", Name: containers[i].Name, SandboxID: "s", State: lifecycle.Running, CreatedAt: start, StartedAt: start}
				if init := i < len(p.Pod.Spec.InitContainers); init && !podutil.IsRestartableInitContainer(&containers[i]) {
					c.State, c.FinishedAt, c.ExitCode = lifecycle.Exited, start.Add(10*time.Minute), max(code-100, 0)
				} else if code >= 100 {
					continue
				} else if code >= 0 {
					c.State, c.FinishedAt, c.ExitCode = lifecycle.Exited, start.Add(10*time.Minute), code
				}
				started[c.ID] = true
				obs.Containers = append(obs.Containers, c)
			}
			key := fmt.Sprintf("%d after %v", code, age)
			for i := range p.Containers {
				does[p.Containers[i].Name+" files"] = fmt.Sprint(p.Containers[i].FileKeys())
			}
			does["next "+key] = lifecycle.Next(p.Pod, lifecycle.World{Observed: obs, Started: started, Since: start, Now: start.Add(age)})
			does["status "+key] = lifecycle.Status(p.Pod, lifecycle.StatusInput{Observed: obs, Now: start.Add(age)})
		}
	}
}

// says reports whether a list contains a problem with the given text about a field, its parent or
// its children.
func says(l problem.List, path, text string) bool {
	return slices.ContainsFunc(l, func(p problem.Problem) bool {
		return (below(unindexed(p.Field), path) || below(path, unindexed(p.Field))) && strings.Contains(p.Message+" "+p.Hint, text)
	})
}

// unindexed converts spec.containers[0].env to spec.containers[].env.
func unindexed(field string) string {
	var out strings.Builder
	depth := 0
	for _, r := range field {
		switch {
		case r == '[':
			depth++
			out.WriteRune(r)
		case r == ']':
			depth--
			out.WriteRune(r)
		case depth == 0:
			out.WriteRune(r)
		}
	}
	return out.String()
}
