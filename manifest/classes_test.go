package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

const classes = `
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000, preemptionPolicy: Never}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: top}, value: 1000000000}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: plain}, handler: runc}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: vm}, handler: kata, overhead: {podFixed: {cpu: 250m, memory: 120Mi}},
 scheduling: {nodeSelector: {virt: "yes"}, tolerations: [{key: virt, operator: Exists}]}}
`

const defaults = `
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 7, globalDefault: true}
`

// TestWithClasses compares with the changes that the API server's admission makes to a spec.
func TestWithClasses(t *testing.T) {
	type fields = map[string]any
	for _, tc := range []struct {
		name, spec, more string
		// fields of the spec, without the containers and defaults
		want     fields
		problems string // field: message
	}{
		{name: "no class", want: fields{}},
		{name: "a class", spec: "priorityClassName: high", want: fields{"priorityClassName": "high", "priority": 1000.0, "preemptionPolicy": "Never"}},
		{name: "its own preemption policy", spec: "priorityClassName: high, preemptionPolicy: PreemptLowerPriority",
			want: fields{"priorityClassName": "high", "priority": 1000.0, "preemptionPolicy": "PreemptLowerPriority"}},
		{name: "cluster critical", spec: "priorityClassName: system-cluster-critical", want: fields{"priorityClassName": "system-cluster-critical", "priority": 2000000000.0}},
		{name: "node critical", spec: "priorityClassName: system-node-critical", want: fields{"priorityClassName": "system-node-critical", "priority": 2000001000.0}},
		{name: "the default of all", more: defaults, want: fields{"priorityClassName": "usual", "priority": 7.0, "preemptionPolicy": "PreemptLowerPriority"}},
		{name: "not the default of all", more: defaults, spec: "priorityClassName: high", want: fields{"priorityClassName": "high", "priority": 1000.0, "preemptionPolicy": "Never"}},
		{name: "exported with its priority", spec: "priorityClassName: theirs, priority: 5", want: fields{"priorityClassName": "theirs", "priority": 5.0}},
		{name: "exported, of a class that is here", spec: "priorityClassName: high, priority: 1000", want: fields{"priorityClassName": "high", "priority": 1000.0, "preemptionPolicy": "Never"}},
		{name: "unknown class", spec: "priorityClassName: no-such", want: fields{"priorityClassName": "no-such"},
			problems: "spec.priorityClassName: no PriorityClass with name no-such was found"},
		{name: "another priority", spec: "priorityClassName: high, priority: 5", want: fields{"priorityClassName": "high", "priority": 5.0},
			problems: "spec.priority: 5 differs from the value of the PriorityClass high, which is 1000"},
		{name: "a runtime class without more", spec: "runtimeClassName: plain", want: fields{"runtimeClassName": "plain"}},
		{name: "overhead and scheduling", spec: "runtimeClassName: vm, nodeSelector: {disk: ssd}", want: fields{"runtimeClassName": "vm",
			"overhead": fields{"cpu": "250m", "memory": "120Mi"}, "nodeSelector": fields{"disk": "ssd", "virt": "yes"},
			"tolerations": []any{fields{"key": "virt", "operator": "Exists"}}}},
		{name: "a second time", spec: `runtimeClassName: vm, overhead: {cpu: "0.25", memory: 120Mi}, nodeSelector: {virt: "yes"}, tolerations: [{key: virt, operator: Exists}]`,
			want: fields{"runtimeClassName": "vm", "overhead": fields{"cpu": "250m", "memory": "120Mi"}, "nodeSelector": fields{"virt": "yes"},
				"tolerations": []any{fields{"key": "virt", "operator": "Exists"}}}},
		{name: "contradictions", spec: `runtimeClassName: vm, overhead: {cpu: "1"}, nodeSelector: {virt: "no"}`,
			want: fields{"runtimeClassName": "vm", "overhead": fields{"cpu": "1"}, "nodeSelector": fields{"virt": "no"},
				"tolerations": []any{fields{"key": "virt", "operator": "Exists"}}},
			problems: "spec.overhead: the pod's overhead differs from that of the RuntimeClass vm\nspec.nodeSelector: virt=no conflicts with the RuntimeClass vm, which sets virt=yes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := "containers: [{name: app, image: x}]"
			if tc.spec != "" {
				spec += ", " + tc.spec
			}
			o, problems := Load([]input.Source{{Name: "f", Data: []byte("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {" + spec + "}}" + classes + tc.more)}}, Options{})
			if errs := problems.Errors(); len(errs) > 0 {
				t.Fatal(errs)
			}
			was := o.Pods[0].Object.DeepCopy()
			pod, found := WithClasses(o.Pods[0].Object, o)
			if diff := cmp.Diff(was, o.Pods[0].Object); diff != "" {
				t.Errorf("the input changed:\n%s", diff)
			}
			data, err := yaml.Marshal(pod.Spec)
			if err != nil {
				t.Fatal(err)
			}
			all, got := fields{}, fields{}
			if err := yaml.Unmarshal(data, &all); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"priorityClassName", "priority", "preemptionPolicy", "runtimeClassName", "overhead", "nodeSelector", "tolerations"} {
				if v, ok := all[name]; ok {
					got[name] = v
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			var lines []string
			for _, p := range found {
				lines = append(lines, p.Field+": "+p.Message)
				if p.Kind != problem.Manifest {
					t.Errorf("kind %q of %s", p.Kind, p)
				}
			}
			if got := strings.Join(lines, "\n"); got != tc.problems {
				t.Errorf("problems:\n%s\nwant:\n%s", got, tc.problems)
			}
		})
	}
}
