package inspect

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/serve"
)

func used(cpu, memory uint64) serve.Usage {
	return serve.Usage{NanoCores: &cpu, WorkingSetBytes: &memory}
}

func usedPods() []serve.PodUsage {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := func(name string, u serve.Usage, containers ...serve.ContainerUsage) serve.PodUsage {
		return serve.PodUsage{ID: identity.Pod{Namespace: "default", Name: name}, Labels: map[string]string{"app": name}, Containers: containers, Usage: u, Time: at, Window: 1100 * time.Millisecond}
	}
	return []serve.PodUsage{
		pod("db", used(1_000_001, 70<<20), serve.ContainerUsage{Name: "db", Usage: used(1_000_001, 70<<20)}),
		pod("new", serve.Usage{WorkingSetBytes: ptr.To[uint64](1 << 19)}, serve.ContainerUsage{Name: "app", Usage: serve.Usage{WorkingSetBytes: ptr.To[uint64](1 << 19)}}),
		pod("web", used(1_500_000_000, 30<<20), serve.ContainerUsage{Name: "app", Usage: used(500_000_000, 20<<20)}, serve.ContainerUsage{Name: "side", Usage: used(1_000_000_000, 10<<20)}),
	}
}

// testLimits are the limits of a pod and of one container of another.
var testLimits = usageLimits{
	{"default", "db", ""}:     {corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("140Mi")},
	{"default", "web", "app"}: {corev1.ResourceMemory: resource.MustParse("40Mi")},
}

func TestTopTable(t *testing.T) {
	for name, c := range map[string]struct {
		f    topFlags
		by   string
		want string
	}{
		"pods": {f: topFlags{}, by: "name", want: `
NAME   CPU(cores)   MEMORY(bytes)   CPU(limit)   CPU%     MEMORY(limit)   MEMORY%
db     2m           70Mi            10m          10%      140Mi           50%
new    <unknown>    512Ki           <none>       <none>   <none>          <none>
web    1500m        30Mi            <none>       <none>   <none>          <none>
`},
		"by cpu": {f: topFlags{noHeaders: true}, by: "cpu", want: `
web   1500m       30Mi    <none>   <none>   <none>   <none>
db    2m          70Mi    10m      10%      140Mi    50%
new   <unknown>   512Ki   <none>   <none>   <none>   <none>
`},
		"by memory, of all namespaces": {f: topFlags{allNamespaces: true, sum: true}, by: "memory", want: `
NAMESPACE   NAME       CPU(cores)   MEMORY(bytes)   CPU(limit)   CPU%     MEMORY(limit)   MEMORY%
default     db         2m           70Mi            10m          10%      140Mi           50%
default     web        1500m        30Mi            <none>       <none>   <none>          <none>
default     new        <unknown>    512Ki           <none>       <none>   <none>          <none>
            ________   ________     ________
                       1502m        100Mi
`},
		"containers by cpu": {f: topFlags{containers: true}, by: "cpu", want: `
POD   NAME   CPU(cores)   MEMORY(bytes)   CPU(limit)   CPU%     MEMORY(limit)   MEMORY%
web   side   1000m        10Mi            <none>       <none>   <none>          <none>
web   app    500m         20Mi            <none>       <none>   40Mi            50%
db    db     2m           70Mi            <none>       <none>   <none>          <none>
new   app    <unknown>    512Ki           <none>       <none>   <none>          <none>
`},
	} {
		var out bytes.Buffer
		pods := usedPods()
		view.SortUsage(pods, c.by)
		if err := printUsage(cli.New(cli.Streams{Out: &out, Err: &out}), pods, testLimits, &c.f, false); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(c.want[1:], out.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTopMetrics checks that the object equals that of a metrics server.
func TestTopMetrics(t *testing.T) {
	var out bytes.Buffer
	a := cli.New(cli.Streams{Out: &out, Err: &out})
	a.Output = "yaml"
	if err := printUsage(a, usedPods()[:1], nil, &topFlags{}, true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`apiVersion: metrics.k8s.io/v1beta1
containers:
- name: db
  usage:
    cpu: 1000001n
    memory: 70Mi
kind: PodMetrics
metadata:
  creationTimestamp: "2026-01-02T03:04:05Z"
  labels:
    app: db
  name: db
  namespace: default
timestamp: "2026-01-02T03:04:05Z"
window: 1.1s
`, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	a.Output = "json"
	served := usedPods()[1:2]
	served[0].Window = 0
	if err := printUsage(a, served, nil, &topFlags{}, false); err != nil || bytes.Contains(out.Bytes(), []byte("window")) ||
		!bytes.Contains(out.Bytes(), []byte(`"kind": "PodMetricsList"`)) || bytes.Contains(out.Bytes(), []byte(`"cpu"`)) {
		t.Errorf("%s %v", &out, err)
	}
}

// TestPodLimit checks that a pod has a limit only if its resources set it, or all of its containers have one.
func TestPodLimit(t *testing.T) {
	limited := func(memory string) corev1.Container {
		return corev1.Container{Name: memory, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}}
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := limited("4Mi")
	sidecar.RestartPolicy = &always
	for want, spec := range map[string]corev1.PodSpec{
		"<none>": {Containers: []corev1.Container{limited("1Mi"), {Name: "free"}}},
		"7Mi":    {InitContainers: []corev1.Container{{Name: "ends"}, sidecar}, Containers: []corev1.Container{limited("1Mi"), limited("2Mi")}},
		"9Mi":    {Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("9Mi")}}, Containers: []corev1.Container{{Name: "free"}}},
	} {
		limits := usageLimits{}
		limits.add(identity.Pod{Namespace: "ns", Name: "web"}, &spec)
		if got, _ := limits.memoryLimitCells(usageKey{"ns", "web", ""}, nil); got != want {
			t.Errorf("limit %s, want %s", got, want)
		}
	}
}
